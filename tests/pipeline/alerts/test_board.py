"""Alerts with hysteresis: each is raised once and cleared once, whatever comes in between or repeatedly."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.alerts.board import CLEARS_BELOW, UNSEEN_US, Alert, Board, Limits

SECOND = 1_000_000
LIMITS = Limits(full_s=600, hot=1.5, held_s=30)


def queue(seconds: float | None, at: int = 0, unsure: float | None = None) -> dict[str, Any]:
    return {"node": "n", "vhost": "/", "queue": "q", "at": at, "seconds": seconds, "unsure_seconds": unsure, "depth": 5,
            "depth_bytes": 900, "stop_count": 9, "stop_bytes": 0}  # fmt: skip


def states(alerts: list[Alert]) -> list[str]:
    return [f"{alert.kind} {alert.state}" for alert in alerts]


@given(st.lists(st.floats(0, 3)))
def test_raised_and_cleared_take_turns(course: list[float]) -> None:
    board = Board(LIMITS)
    reported: list[bool] = []
    for at, badness in enumerate(course):
        reported += [alert.raised for alert in board.assess("shard-hot", ("n", "0"), badness, at, {})]
        if badness >= 1:
            assert reported[-1]
        elif badness < CLEARS_BELOW:
            assert not reported or not reported[-1]
    assert reported == [number % 2 == 0 for number in range(len(reported))]


def test_a_queue_that_fills() -> None:
    board = Board(LIMITS)
    assert board.queues([queue(700)]) == []
    assert states(board.queues([queue(600, SECOND)])) == ["queue-full raised"]
    assert board.queues([queue(0), queue(601), queue(800)]) == []
    (cleared,) = board.queues([queue(None, 11 * SECOND)])
    assert (cleared.state, cleared.facts["seconds"]) == ("cleared", 10.0)
    assert cleared.routing_key == "queue-full.cleared.n./.q"
    assert json.loads(cleared.body())["subject"] == ["n", "/", "q"]


def test_a_line_that_says_nothing_raises_no_alert_and_clears_none_near_the_mark() -> None:
    board = Board(LIMITS)
    assert board.queues([queue(None, unsure=1), queue(None, unsure=0)]) == []
    assert states(board.queues([queue(600)])) == ["queue-full raised"]
    assert board.queues([queue(None, unsure=0), queue(None, unsure=850)]) == []
    assert states(board.queues([queue(None, unsure=870)])) == ["queue-full cleared"]


def test_a_shard_that_is_hot_among_those_of_its_node() -> None:
    board = Board(LIMITS)

    def assess(*rates: float) -> list[str]:
        rows = [{"node": "n", "shard": number, "at": 0, "rate": rate} for number, rate in enumerate(rates)]
        return states(board.shards([*rows, {"node": "alone", "shard": 0, "at": 0, "rate": 1e6}]))

    assert assess(10, 10, 10) == []
    assert assess(10, 10, 40) == ["shard-hot raised"]
    assert assess(10, 10, 15) == []
    assert assess(10, 10, 10) == ["shard-hot cleared"]
    assert assess(0, 0, 0) == []


def flow(action: str, at_s: float, outcome: str | None = None) -> dict[str, Any]:
    row = {"node": "n", "connection": "0.1.1", "channel": 1, "user": "ann", "action": action, "outcome": outcome}
    return {**row, "ts": int(at_s * SECOND), "stopped_ms": 1_000 if action == "resume" else None}


def test_a_producer_that_is_held_for_long() -> None:
    board = Board(LIMITS)
    assert board.flow([flow("stop", 0)]) == []
    assert board.tick(29 * SECOND) == []
    # another cause holds it from now on: it has been held since the first
    assert board.flow([flow("resume", 20, "other-cause"), flow("stop", 20)]) == []
    assert states(board.tick(30 * SECOND)) == ["producer-held raised"]
    assert board.tick(60 * SECOND) == []
    assert states(board.flow([flow("resume", 61, "free")])) == ["producer-held cleared"]
    assert board.tick(1_000 * SECOND) == []
    assert not board.held and not board.standing


def test_what_is_not_heard_of_any_more_is_cleared() -> None:
    board = Board(LIMITS)
    board.queues([queue(1, SECOND)])
    assert board.tick(SECOND + UNSEEN_US) == []
    (cleared,) = board.tick(SECOND + UNSEEN_US + 1)
    assert (cleared.state, cleared.facts["unseen"]) == ("cleared", True)


def test_a_restart_goes_on_where_it_was() -> None:
    board = Board(LIMITS)
    board.queues([queue(1)])
    board.flow([flow("stop", 0)])
    board.batches["queues"] = 7
    again = Board.from_json(LIMITS, board.to_json())
    assert again == board and not again.unpublished
    assert again.queues([queue(1)]) == []
    assert states(again.tick(31 * SECOND)) == ["producer-held raised"]


def test_an_alert_that_may_have_been_published_says_so_after_a_restart() -> None:
    board = Board(LIMITS)
    board.unpublished = board.queues([queue(1)])
    (alert,) = Board.from_json(LIMITS, board.to_json()).unpublished
    assert alert == replace(board.unpublished[0], repeated=True)
    contents = [json.loads(each.body()) for each in (board.unpublished[0], alert)]
    assert [each.pop("repeated") for each in contents] == [False, True]
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        '{"standing": [[1]]}',
        '{"standing": 3, "held": [], "batches": {}, "unpublished": []}',
        '{"standing": [], "held": [], "batches": {}, "unpublished": [["queue-full", true]]}',
        '{"standing": [["queue-full", ["/", "q"], 1, 1]], "held": [], "batches": {}}',
    ],
)
def test_what_was_not_saved_whole_is_begun_anew(text: str | None) -> None:
    assert Board.from_json(LIMITS, text) == Board(LIMITS)


def test_a_long_name_makes_a_key_that_amqp_can_carry() -> None:
    alert = Alert("queue-full", True, ("/", "ü" * 200), 0, {})
    assert len(alert.routing_key.encode()) <= 255
