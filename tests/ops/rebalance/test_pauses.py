"""The expected duration of moves: a guess, or as measured on earlier moves."""

from __future__ import annotations

from typing import Any

from ops.rebalance.pauses import MOVES_LEAST, MOVES_MOST, Pauses, measured


def moved(pause: float | None, messages: int = 0, nbytes: int = 0, **more: Any) -> dict[str, Any]:
    facts = {"event": "move", "result": "moved", "pause_ms": pause, "messages": messages, "bytes": nbytes}
    return {**facts, **more}


def test_a_guess_stands_until_there_are_enough_moves() -> None:
    assert measured([]) == Pauses()
    assert Pauses().expected(0, 0) == 10.0
    assert Pauses().expected(100_000, 20_000_000) == 10.0 + 400 + 100
    few = [moved(90.0)] * (MOVES_LEAST - 1) + [moved(9000.0, 100_000)] * (MOVES_LEAST - 1)
    assert measured(few) == Pauses()


def test_moves_tell_what_they_take_for_themselves_and_for_what_they_copy() -> None:
    empty = [moved(pause) for pause in (12.0, 11.0, 13.0, 12.0, 900.0)]
    copies = [moved(12.0 + 80, 100_000), moved(12.0 + 20, 25_000), moved(12.0 + 40, 0, 40_000_000)]
    found = measured([*empty, *copies, *copies])
    assert found == Pauses(12.0, 0.2)
    assert found.expected(50_000, 0) == 12.0 + 40
    assert measured(copies + copies).own_ms == 10.0


def test_only_moves_that_were_made_count_and_of_these_the_latest() -> None:
    others = [
        moved(500.0, result="rolled-back"),
        moved(None),
        {"event": "start", "number": 0},
        {"event": "begun", "moves": 3},
    ]
    assert measured(others * MOVES_LEAST) == Pauses()
    assert measured([moved(100.0)] * MOVES_MOST + [moved(20.0)] * MOVES_MOST).own_ms == 20.0


def test_a_copy_that_took_less_than_a_move_for_itself_took_nothing() -> None:
    assert measured([moved(20.0)] * MOVES_LEAST + [moved(15.0, 10_000)] * MOVES_LEAST) == Pauses(20.0, 0.0)
