"""The benchmark of moves: a run against a real broker gives its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from load.move_pause import BURST, pauses
from load.node import LocalNode


@pytest.mark.broker
def test_figures(tmp_path: Path) -> None:
    with LocalNode(tmp_path, "--shards", "2", "--acceptors", "2") as node:
        empty = pauses(node, 0, 100, 2)
        assert empty["moves"] == 2 and empty["messages"] < 10
        assert 0 < empty["held_median_ms"] <= empty["held_max_ms"]
        backlog = pauses(node, BURST, 100, 2)
        assert backlog["messages"] >= BURST and backlog["longest_confirm_median_ms"] > 0
