"""Whatever is killed, and whenever: no confirmed message is lost, and no settled message is delivered again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.harms import kill_again, kill_all, kill_any, kill_two, stop
from tests.faults.node import Node
from tests.faults.rounds import SEED, Harm, Rounds

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only"), pytest.mark.timeout(900)]

HARMS: list[Harm] = [kill_any, kill_any, kill_any, kill_any, kill_two, kill_again, kill_all, stop]


def rounds(directory: Path, seed: int, count: int, *assignments: str) -> None:
    node = Node(directory, *assignments)
    Rounds(node, SEED + seed, HARMS).run(count)


@pytest.mark.parametrize("seed", range(2))
def test_five_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_ten_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 10)


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ["memory_limit=1MB", "store.durability=interval=50ms"])
@pytest.mark.parametrize("seed", range(2000, 2002))
def test_ten_rounds_with(tmp_path: Path, seed: int, assignment: str) -> None:
    """With little memory, so that contents are paged; with commits that do not wait for the disk, which only a power
    cut would show.
    """
    rounds(tmp_path, seed, 10, assignment)
