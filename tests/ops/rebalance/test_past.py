"""The past of plans, from their records."""

from __future__ import annotations

from typing import Any

from ops.rebalance.applying import MOVE_RESULTS
from ops.rebalance.past import Past, PastMove, PastPlan, past_of


def record(at: float, plan: str, event: str, **facts: Any) -> dict[str, Any]:
    return {"at": at, "plan": plan, "event": event, **facts}


def start(at: float, plan: str, number: int) -> dict[str, Any]:
    return record(at, plan, "start", number=number, vhost="/", queue=f"q{number}", bytes=5)


def test_plans_are_those_of_operators_or_of_the_balancer() -> None:
    past = past_of([
        record(1, "a", "begun"),  # of an earlier version
        record(2, "a", "ended", state="applied"),
        record(3, "b", "kept", moves=2, expires=60),
        record(4, "c", "begun", by="automatic", undoes=None),
        record(5, "c", "ended", state="withdrawn"),
        record(6, "d", "begun", by="operator", undoes="c"),
        record(7, "b", "begun", by="operator", undoes=None),
    ])  # fmt: skip
    assert past.plans == (
        PastPlan("a", 2, "operator", state="applied"),
        PastPlan("c", 5, "automatic", ours=True, state="withdrawn"),
        PastPlan("d", 6, "operator", undoes="c"),
        PastPlan("b", 7, "operator", ours=True, expires=60),
    )
    assert past.interrupted is None, "an operator's plan is the operator's to continue"


def test_the_latest_plan_without_an_end_was_interrupted() -> None:
    begun = record(1, "a", "begun", by="automatic", undoes=None)
    ended = record(3, "a", "ended", state="applied")
    interrupted = past_of([begun, start(2, "a", 0)]).interrupted
    assert interrupted is not None and (interrupted.id, interrupted.last) == ("a", 2)
    assert past_of([begun, ended]).interrupted is None
    again = past_of([begun, ended, record(4, "a", "begun", by="automatic", undoes=None)]).interrupted
    assert again is not None and again.id == "a"
    assert past_of([begun, record(2, "b", "begun", by="operator", undoes=None)]).interrupted is None


def test_moves_count_unless_they_are_known_to_have_failed() -> None:
    begun = record(0, "a", "begun", by="automatic", undoes=None)
    open_move = PastMove("a", 0, 1, ("/", "q0"), 5, "automatic")
    assert past_of([begun, start(1, "a", 0)]) == Past((PastPlan("a", 1, "automatic", ours=True),), (open_move,))
    counted = set()
    for result in MOVE_RESULTS:
        ended = record(2, "a", "move", number=0, vhost="/", queue="q0", result=result)
        if past_of([begun, start(1, "a", 0), ended]).moves:
            counted.add(result)
    assert counted == {"moved", "already-there", "no-queue", "replaced"}


def test_an_attempt_that_is_repeated_counts_once_and_by_whom_it_was_made_last() -> None:
    records = [
        record(0, "a", "begun", by="automatic", undoes=None), start(1, "a", 0),
        record(2, "a", "begun", by="operator", undoes=None), start(3, "a", 0), start(4, "a", 1),
    ]  # fmt: skip
    past = past_of(records)
    assert [(move.number, move.at, move.by) for move in past.moves] == [(0, 3, "operator"), (1, 4, "operator")]
    assert past.own_moves(0) == []
    assert past.moved(3) == {("/", "q1")}
    assert past.moved(2.5) == {("/", "q0"), ("/", "q1")}
