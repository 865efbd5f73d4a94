"""The pause that is expected of moves, and the work by which plans are compared."""

from __future__ import annotations

from typing import Any

from ops.rebalance.costs import BYTES_A_MESSAGE, MOVES_LEAST, MOVES_MOST, OWN_WORK, PAUSE_MS, expected_pause, work


def moved(pause: float | None, **more: Any) -> dict[str, Any]:
    return {"event": "move", "result": "moved", "pause_ms": pause, "messages": 0, "bytes": 0, **more}


def test_a_guess_stands_until_there_are_enough_moves() -> None:
    assert expected_pause([]) == PAUSE_MS
    assert expected_pause([moved(90.0)] * (MOVES_LEAST - 1)) == PAUSE_MS


def test_the_median_of_the_latest_moves_counts_whatever_they_copied() -> None:
    assert expected_pause([moved(12.0), moved(11.0), moved(13.0, messages=10**6), moved(12.06), moved(900.0)]) == 12.1
    assert expected_pause([moved(100.0)] * MOVES_MOST + [moved(20.0)] * MOVES_MOST) == 20.0


def test_only_moves_that_were_made_count() -> None:
    others = [
        moved(500.0, result="rolled-back"),
        moved(None),
        {"event": "start", "number": 0},
        {"event": "begun", "moves": 3},
    ]
    assert expected_pause(others * MOVES_LEAST) == PAUSE_MS


def test_a_move_is_work_even_without_a_copy() -> None:
    assert work(0, 0) == OWN_WORK
    assert work(10, 20 * BYTES_A_MESSAGE) == OWN_WORK + 30
