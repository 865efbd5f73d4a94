"""The disk refuses, now and then or for a while: no crash, no loss, no false confirm, and all goes on afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.disk import Disk
from tests.faults.harms import refuse, refuse_and_cut, refuse_and_kill
from tests.faults.node import Node
from tests.faults.rounds import SEED, Rounds

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only"), pytest.mark.timeout(300)]


def rounds(directory: Path, seed: int, count: int) -> None:
    disk = Disk((directory / "data").resolve(), directory / "disk")
    node = Node(directory, environment=disk.environment)
    harms = [refuse(disk), refuse(disk), refuse_and_kill(disk), refuse_and_cut(disk)]
    Rounds(node, SEED + seed, harms).run(count)


@pytest.mark.parametrize("seed", range(2))
def test_three_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1010))
def test_ten_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 10)
