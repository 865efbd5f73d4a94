"""The next step while a plan is applied, whatever the results of the steps before."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.rebalance.applying import (
    ATTEMPTS,
    BACK_OFF_SECONDS,
    DONE,
    MOVE_RESULTS,
    UNDER_WAY_SECONDS,
    Applying,
    Ended,
    Health,
    Limits,
    MoveResult,
    Result,
    Start,
    State,
    Wait,
    earlier_state,
)
from ops.rebalance.plan import Move, Plan

NOW = 1_000_000.0
WELL = Health()


def plan(moves: int = 3, version: int = 7) -> Plan:
    made = tuple(Move("/", f"q{n}", n, 0, 1) for n in range(moves))
    return Plan("20260101-000000-00000000", NOW - 10, NOW + 3600, version, {}, {}, {}, made)


def applying(moves: int = 3, at_once: int = 1, **limits: float) -> Applying:
    return applied(plan(moves), at_once, **limits)


def applied(made: Plan, at_once: int, **limits: float) -> Applying:
    return Applying(made, made.placement_version, Limits(moves=at_once, **limits))


def begin(core: Applying, now: float = NOW) -> Start:
    """Begin the next move."""
    step = core.next_step(now, WELL)
    assert isinstance(step, Start)
    core.begin(step)
    return step


def answered(core: Applying, result: MoveResult, now: float = NOW, **facts: Any) -> None:
    """Make the next move and end it with this result at once."""
    core.record_result(begin(core, now).number, Result(result, **facts), now, 0.0)


def test_moves_in_their_order_each_for_the_version_that_the_last_one_left() -> None:
    core = applying()
    versions = []
    for number in range(3):
        step = core.next_step(NOW, WELL)
        assert step == Start(number, core.plan.moves[number], core.placement_version)
        versions.append(core.placement_version)
        core.record_result(number, Result("moved", placement_version=8 + number), NOW, 0.0)
    assert versions == [7, 8, 9]
    assert core.next_step(NOW, WELL) == Ended("applied")


@pytest.mark.parametrize("result", sorted(DONE))
def test_what_leaves_nothing_to_do_is_passed_over(result: MoveResult) -> None:
    core = applying(1)
    answered(core, result)
    assert core.next_step(NOW, WELL) == Ended("applied")


@pytest.mark.parametrize("result", ["rolled-back", "busy"])
def test_a_move_that_is_rolled_back_is_tried_again_a_few_times(result: MoveResult) -> None:
    core, now = applying(2), NOW
    for _ in range(ATTEMPTS - 1):
        answered(core, result, now, reason="no")
        wait = core.next_step(now, WELL)
        assert isinstance(wait, Wait)
        now += wait.seconds
    answered(core, result, now, reason="no")
    assert core.next_step(now, WELL) == Ended("stopped", f"queue 'q0': {result}, no")


@pytest.mark.parametrize("result", ["refused", "no-shard", "unknown"])
def test_a_move_that_cannot_be_ends_the_plan(result: MoveResult) -> None:
    core = applying()
    answered(core, result, reason="why")
    assert core.next_step(NOW, WELL) == Ended("stopped", f"queue 'q0': {result}, why")


def test_a_placement_that_somebody_else_has_changed_ends_it() -> None:
    core = applying()
    answered(core, "stale", reason="version 9", placement_version=9)
    assert core.next_step(NOW, WELL) == Ended("stale", "version 9")
    assert core.placement_version == 7


def test_a_placement_that_somebody_else_changes_during_a_move_ends_it() -> None:
    core = applying()
    answered(core, "moved", placement_version=9)
    assert core.next_step(NOW, WELL) == Ended("stale", "the placement is of version 9")


def test_each_rate_is_kept_on_the_average() -> None:
    core = applying(at_once=8, messages_per_second=100, bytes_per_second=1000)
    answered(core, "moved", messages=50, nbytes=2000)
    assert core.next_step(NOW, WELL) == Wait(2.0, "the rate limits")
    assert begin(core, NOW + 2).number == 1
    assert core.next_step(NOW + 2, WELL) == Wait(UNDER_WAY_SECONDS, "")
    core.record_result(1, Result("moved", messages=500), NOW + 2, took=1.5)
    assert core.next_step(NOW + 2, WELL) == Wait(3.5, "the rate limits")
    core.apply_controls({"messages_per_second": 1000}, abort=False)
    assert isinstance(core.next_step(NOW + 2, WELL), Start)


def test_limits_change_while_it_runs() -> None:
    core = applying()
    core.apply_controls({"moves": 0}, abort=False)
    assert isinstance(core.next_step(NOW, WELL), Wait)
    core.apply_controls({"moves": 1, "messages_per_second": 10, "of a newer penstock": 5}, abort=False)
    answered(core, "moved", messages=20)
    assert core.next_step(NOW, WELL) == Wait(2.0, "the rate limits")


@pytest.mark.parametrize(
    ("health", "why"),
    [
        (Health(loop_lag_ms=300), "an event loop lags by 300 ms, more than 250 ms"),
        (Health(stopped_percent=60), "60 % of the channels are held, more than 50 %"),
        (Health(fill_percent=95), "a shard's memory is 95 % full, more than 90 %"),
    ],
)
def test_it_backs_off_while_the_node_has_other_troubles(health: Health, why: str) -> None:
    core = applying()
    waits = [core.next_step(NOW, health) for _ in range(8)]
    assert waits == [Wait(seconds, why) for seconds in (1, 2, 4, 8, 16, 30, 30, 30)]
    assert core.progress()["waits_for"] == why
    assert isinstance(core.next_step(NOW, WELL), Start)
    assert core.next_step(NOW, health) == Wait(1, why)
    core.apply_controls({"loop_lag_ms": 0, "stopped_percent": 0, "fill_percent": 0}, abort=False)
    assert isinstance(core.next_step(NOW, health), Start)


def test_an_operator_ends_it() -> None:
    core = applying()
    core.apply_controls({}, abort=True)
    assert core.next_step(NOW, WELL) == Ended("aborted")


def test_it_ends_with_the_lease_and_with_the_time_of_the_plan() -> None:
    core = applying()
    assert core.next_step(NOW + 3600, WELL) == Ended("expired", "plan again: its inputs are too old")
    core.lose_lease("somebody else has it")
    assert core.next_step(NOW, WELL) == Ended("lease-lost", "somebody else has it")


def test_answers_of_a_node() -> None:
    answer = {"result": "moved", "reason": "", "pause_ms": 3.5, "messages": 2, "bytes": 9, "placement_version": 8}
    assert Result.of(answer) == Result("moved", "", 3.5, 2, 9, 8)
    refused = {**dict.fromkeys(answer), "result": "refused", "reason": "no", "placement_version": 7}
    assert Result.of(refused) == Result("refused", "no", None, 0, 0, 7)
    assert Result.of({"result": "celebrated"}) == Result("unknown", "the node answered 'celebrated'")
    assert Result.of({}).result == "unknown"


@given(
    st.lists(st.tuples(st.sampled_from(sorted(MOVE_RESULTS)), st.integers(0, 1000)), max_size=30),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=5),
    st.integers(1, 4),
    st.sampled_from([0.0, 10.0]),
    st.randoms(use_true_random=False),
)
def test_whatever_comes_back_it_ends_in_one_of_the_states(
    results: list[tuple[MoveResult, int]], shards: list[tuple[int, int]], at_once: int, rate: float, chance: Random
) -> None:
    """Moves are begun in order, each `ATTEMPTS` times at most, as many at a time as may be, and none into a shard that
    another is to leave. A plan is applied only if all are done.
    """
    made = replace(plan(), moves=tuple(Move("/", f"q{n}", n, *pair) for n, pair in enumerate(shards)))
    core, now, given_back = applied(made, at_once, messages_per_second=rate), NOW, iter(results)
    begun: list[int] = []
    for _ in range(500):
        step = core.next_step(now, WELL)
        if isinstance(step, Ended):
            break
        if isinstance(step, Start):
            others = core.under_way.values()
            assert len(others) < (1 if rate else at_once)
            assert step.move.target not in {other.move.source for other in others}
            assert (step.placement_version is None) == bool(others)
            begun.append(step.number)
            core.begin(step)
        else:
            now += step.seconds
        if core.under_way and (isinstance(step, Wait) or chance.random() < 0.5):
            number = chance.choice(list(core.under_way))
            result, messages = next(given_back, ("moved", 0))
            core.record_result(number, Result(result, messages=messages), now, 0.0)
    else:
        raise AssertionError("it does not end")
    assert step.state in get_args(State) and not core.under_way
    firsts = list(dict.fromkeys(begun))
    assert firsts == sorted(firsts)
    assert all(begun.count(number) <= ATTEMPTS for number in begun)
    assert (step.state == "applied") == (core.done == set(range(len(shards))))


def test_several_moves_are_begun_one_after_the_other_and_may_end_in_any_order() -> None:
    core = applying(4, at_once=3)
    assert [begin(core).placement_version for _ in range(3)] == [7, None, None]
    assert core.next_step(NOW, WELL) == Wait(UNDER_WAY_SECONDS, "")
    for number, version in ((2, 8), (0, 10), (1, 10)):  # 0 was answered after 1 had been moved
        core.record_result(number, Result("moved", placement_version=version), NOW, 0.0)
    assert begin(core).placement_version == 10
    core.record_result(3, Result("moved", placement_version=11), NOW, 0.0)
    assert core.next_step(NOW, WELL) == Ended("applied")


def test_a_version_that_the_plan_s_moves_do_not_explain_ends_it_once_none_is_under_way() -> None:
    core = applying(3, at_once=2)
    begin(core), begin(core)
    core.record_result(0, Result("moved", placement_version=10), NOW, 0.0)
    assert core.next_step(NOW, WELL) == Wait(UNDER_WAY_SECONDS, "")
    core.record_result(1, Result("moved", placement_version=10), NOW, 0.0)
    assert core.next_step(NOW, WELL) == Ended("stale", "the placement is of version 10")


def test_a_move_that_others_have_overtaken_on_the_way_is_requested_again() -> None:
    core = applying(2, at_once=2)
    begin(core), begin(core)
    core.record_result(1, Result("moved", placement_version=8), NOW, 0.0)
    core.record_result(0, Result("stale", "the placement is of version 8", placement_version=8), NOW, 0.0)
    later = NOW + BACK_OFF_SECONDS[1]
    assert core.next_step(later, WELL) == Start(0, core.plan.moves[0], 8)


def test_no_move_is_begun_into_a_shard_that_another_still_has_to_leave() -> None:
    made = replace(plan(), moves=(Move("/", "a", 1, 1, 2), Move("/", "b", 2, 0, 1), Move("/", "c", 3, 0, 2)))
    core = applied(made, 3)
    assert begin(core).number == 0
    assert core.next_step(NOW, WELL) == Wait(UNDER_WAY_SECONDS, "")
    core.record_result(0, Result("moved", placement_version=8), NOW, 0.0)
    assert [begin(core).number for _ in range(2)] == [1, 2]


def test_one_that_fails_ends_the_plan_once_the_others_have_ended() -> None:
    core = applying(4, at_once=2)
    begin(core), begin(core)
    core.record_result(0, Result("refused", "why"), NOW, 0.0)
    assert core.next_step(NOW, WELL) == Wait(UNDER_WAY_SECONDS, "")
    core.record_result(1, Result("moved", placement_version=8), NOW, 0.0)
    assert core.next_step(NOW, WELL) == Ended("stopped", "queue 'q0': refused, why")
    assert core.done == {1}


def test_what_an_earlier_attempt_has_done() -> None:
    records = [
        {"event": "begun", "placement_version": 7},
        {"event": "start", "number": 0},
        {"event": "start", "number": 1},
        {"event": "move", "number": 1, "result": "rolled-back", "placement_version": 7},
        {"event": "move", "number": 0, "result": "moved", "placement_version": 8},
        {"event": "ended"},
        {"event": "begun", "placement_version": 8},
        {"event": "start", "number": 1},
        {"event": "start", "number": 2},
        {"event": "start", "number": 3},
        {"event": "move", "number": 2, "result": "moved", "placement_version": 11},
    ]
    assert earlier_state(plan(4), records) == ({0, 2}, 9, {1, 3})
    assert earlier_state(plan(), []) == (set(), 7, set())
