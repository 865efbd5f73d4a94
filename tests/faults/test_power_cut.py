"""The power goes and the disk has what was flushed: the same rules hold as for crashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.disk import Disk
from tests.faults.harms import cut_power
from tests.faults.node import Node
from tests.faults.rounds import SEED, Rounds

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only"), pytest.mark.timeout(300)]
FLUSH_US = 3000
"""A flush takes as long as with a slow disk, so that there is time between what is written and what is kept."""


def rounds(directory: Path, seed: int, count: int, *assignments: str) -> None:
    disk = Disk((directory / "data").resolve(), directory / "disk", sleep_us=FLUSH_US)
    node = Node(directory, *assignments, environment=disk.environment)
    Rounds(node, SEED + seed, [cut_power(disk)]).run(count)


@pytest.mark.parametrize("seed", range(2))
def test_two_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1010))
def test_five_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 5)


@pytest.mark.slow
def test_a_node_that_does_not_wait_for_the_disk_loses_something(tmp_path: Path) -> None:
    """Or else nothing would be shown by the tests above."""
    with pytest.raises(AssertionError, match=r"things wrong|not ready"):
        rounds(tmp_path, 0, 5, "store.durability=none")
