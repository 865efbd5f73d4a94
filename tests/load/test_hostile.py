"""Hostile clients, each beside a good one: the memory that they cost the broker is bounded, and nobody is held."""

from __future__ import annotations

from pathlib import Path

import pytest

from load.hostile import ATTACKS, LIMIT, OPTIONS, Result, run
from load.node import LocalNode

MIB = 1 << 20
ATTACK_SECONDS = 4.0


def test_what_breaks_the_promise() -> None:
    kept = Result("gets", {}, LIMIT, 39.0, 40.0, 0.1, 0)
    assert kept.broken() == []
    assert kept._replace(most=2 * LIMIT).broken() == ["gets: 1000 MiB, the limit is 500"]
    assert len(kept._replace(rate=30.0, blocked=1).broken()) == 2


@pytest.mark.broker
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack(tmp_path: Path, attack: str) -> None:
    """Only memory is judged here; rates are for the course."""
    with LocalNode(tmp_path, *OPTIONS) as node:
        result = run(node, attack, ATTACK_SECONDS, 0.5)
    assert result.most < LIMIT
    assert result.rate > 0 and not result.blocked
