"""Whatever is killed while leases exist: the same id brings the same messages, an acked lease is settled for good, and
nothing is lost.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.cast import leasing
from tests.faults.harms import kill_again, kill_all, kill_any, kill_two, stop
from tests.faults.node import Node
from tests.faults.rounds import SEED, Harm, Rounds

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only"), pytest.mark.timeout(900)]

HARMS: list[Harm] = [kill_any, kill_any, kill_any, kill_any, kill_two, kill_again, kill_all, stop]


def rounds(directory: Path, seed: int, count: int) -> None:
    Rounds(Node(directory), SEED + seed, HARMS, leasing).run(count)


def test_three_rounds(tmp_path: Path) -> None:
    rounds(tmp_path, 5000, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5010, 5012))
def test_ten_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 10)
