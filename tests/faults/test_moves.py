"""Whatever is killed in the middle of moves: every queue has exactly one home, and no message is lost, repeated or out
of order.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.harms import kill_all
from tests.faults.moves import kill_once, move_and
from tests.faults.node import Node
from tests.faults.rounds import SEED, Harm, Rounds

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only"), pytest.mark.timeout(900)]

HARMS: list[Harm] = [move_and(kill_once)] * 5 + [move_and(None), move_and(kill_all)]


def test_nobody_dies(tmp_path: Path) -> None:
    Rounds(Node(tmp_path), SEED + 3000, [move_and(None)]).run(2)


def test_two_rounds(tmp_path: Path) -> None:
    Rounds(Node(tmp_path), SEED + 3001, [move_and(kill_once)]).run(2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3010, 3015))
def test_ten_rounds(tmp_path: Path, seed: int) -> None:
    Rounds(Node(tmp_path), SEED + seed, HARMS).run(10)
