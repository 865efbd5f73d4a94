"""Whatever is killed and whenever: nothing that was confirmed is lost, nothing that was settled comes again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.harms import kill_one_of
from tests.faults.node import Node
from tests.faults.rounds import Harm, Rounds

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only"), pytest.mark.timeout(300)]

HARMS: list[Harm] = [kill_one_of("acceptor", "router")]
SEED = int(os.environ.get("FAULTS_SEED", "0"))
"""Added to the seed of each test: `FAULTS_SEED=17 pytest tests/faults` takes another course."""


def rounds(directory: Path, seed: int, count: int) -> None:
    node = Node(directory)
    try:
        Rounds(node, SEED + seed, HARMS).run(count)
        node.stop()
    finally:
        node.end()


@pytest.mark.parametrize("seed", range(4))
def test_five_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_ten_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 10)
