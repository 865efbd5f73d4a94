"""Watermarks: hysteresis, values that cannot be made wrong, and every dialect of a declaration's limits."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from decimal import Decimal
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.limits.queue_limits import asked_limits
from penstock.limits.watermarks import NUMBER_MAX, OVERFLOWS, ArgumentError, FlowDefaults, Marks, QueueLimits

NO_DEFAULTS = FlowDefaults()
KIB, MIB = 1024, 1024**2

numbers = st.integers(0, 100) | st.integers(0, NUMBER_MAX)


@st.composite
def mark_pairs(draw: st.DrawFn, limit: int = NUMBER_MAX) -> tuple[int, int]:
    stop = draw(st.integers(0, min(limit, 100)) | st.integers(0, limit))
    return stop, draw(st.integers(0, stop))


marks = st.builds(lambda count, nbytes: Marks(*count, *nbytes), mark_pairs(), mark_pairs())
percents = st.lists(st.integers(1, 100), min_size=2, max_size=2).map(sorted)
flow_defaults = st.builds(lambda c, b, p: FlowDefaults(c, b, p[1], p[0]), numbers, numbers, percents)


# Marks.


@pytest.mark.parametrize(
    ("acceptors", "count", "nbytes"), [(1, 5 + 7, 500 + 65_536), (2, 10 + 7, 1000 + 65_536), (4, 11 + 7, 1250 + 65_536)]
)
def test_a_reserve_comes_once_on_top(acceptors: int, count: int, nbytes: int) -> None:
    marks = Marks(stop_count=80, stop_bytes=8000)
    assert marks.overshoot_bound(acceptors, reserve=7) == (count, nbytes)
    assert Marks(stop_bytes=8000).overshoot_bound(acceptors, reserve=7) == (0, nbytes)
    assert Marks(stop_count=80).overshoot_bound(acceptors, reserve=7) == (count, 0)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"stop_count": 5, "resume_count": 6}, r"resume_count \(6\) is above stop_count \(5\)"),
        ({"stop_bytes": 0, "resume_bytes": 1}, r"resume_bytes \(1\) is above stop_bytes \(0\)"),
        ({"stop_count": -1}, r"stop_count \(-1\) is not between"),
        ({"stop_bytes": 2**63}, r"stop_bytes \(\d+\) is not between"),
    ],
)
def test_marks_cannot_be_wrong(wrong: dict[str, int], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Marks(**wrong)


def test_marks_are_values() -> None:
    assert Marks(2, 1) == Marks(stop_count=2, resume_count=1) and hash(Marks(2, 1)) == hash(Marks(2, 1))
    assert Marks() == Marks.NONE and not Marks.NONE
    assert Marks(stop_count=1) and Marks(stop_bytes=1)
    with pytest.raises(FrozenInstanceError):
        Marks.NONE.stop_count = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("marks", "depths", "answers"),
    [
        (Marks(10, 7), [10, 11, 10, 8, 7, 10, 11], [False, True, True, True, False, False, True]),
        (Marks(1, 0), [1, 2, 1, 0], [False, True, True, False]),
        (Marks(5, 5), [5, 6, 5, 6], [False, True, False, True]),
        (Marks.NONE, [NUMBER_MAX], [False]),
    ],
)
def test_saturated_from_above_stop_to_resume(marks: Marks, depths: list[int], answers: list[bool]) -> None:
    state, seen = False, []
    for depth in depths:
        state = marks.saturated(state, depth, 0)
        seen.append(state)
    assert seen == answers


def test_either_dimension_stops_and_both_resume() -> None:
    both = Marks(10, 5, 1000, 500)
    assert both.saturated(False, 11, 0) and both.saturated(False, 0, 1001)
    assert not both.saturated(False, 10, 1000)
    assert both.saturated(True, 5, 501) and both.saturated(True, 6, 500)
    assert not both.saturated(True, 5, 500)


@given(marks=marks, was=st.booleans(), count=numbers, nbytes=numbers)
def test_saturation_is_hysteresis(marks: Marks, was: bool, count: int, nbytes: int) -> None:
    bounded = [
        (depth, stop, resume)
        for depth, stop, resume in (
            (count, marks.stop_count, marks.resume_count),
            (nbytes, marks.stop_bytes, marks.resume_bytes),
        )
        if stop
    ]
    above_stop = any(depth > stop for depth, stop, _ in bounded)
    at_resume = all(depth <= resume for depth, _, resume in bounded)
    assert not (above_stop and at_resume)
    answer = marks.saturated(was, count, nbytes)
    assert answer is (True if above_stop else False if at_resume else was)
    assert marks.saturated(answer, count, nbytes) is answer


@pytest.mark.parametrize(("stop", "overshoot"), [(0, 0), (1, 1), (31, 1), (32, 2), (10_000, 625), (10**9, 1024)])
def test_overshoot_count(stop: int, overshoot: int) -> None:
    assert Marks(stop_count=stop).overshoot_count == overshoot


@pytest.mark.parametrize(
    ("stop", "overshoot"), [(0, 0), (1, 1), (10_000, 625), (MIB, 64 * KIB), (16 * MIB, MIB), (2**40, MIB)]
)
def test_overshoot_bytes(stop: int, overshoot: int) -> None:
    assert Marks(stop_bytes=stop).overshoot_bytes == overshoot


# Limits and defaults.


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ((0, 0, 70, 80), r"resume_percent \(80\) is above stop_percent \(70\)"),
        ((0, 0, 0, 0), "stop_percent"),
        ((0, 0, 101, 0), "stop_percent"),
        ((-1, 0, 80, 70), "max_count"),
        ((0, -1, 80, 70), "max_bytes"),
    ],
)
def test_defaults_cannot_be_wrong(wrong: tuple[int, int, int, int], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        FlowDefaults(*wrong)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ((10, None, "flow", Marks(11, 1)), r"stop_count \(11\) is above max_count \(10\)"),
        ((None, 10, "flow", Marks(0, 0, 11, 1)), r"stop_bytes \(11\) is above max_bytes \(10\)"),
        ((10, None, "flow", Marks(0, 0, 5, 5)), r"max_count \(10\) has no stop mark"),
        ((10, None, "drop-head", Marks(5, 5)), "overflow 'drop-head' has no marks"),
        ((10, None, "paper", Marks.NONE), "no overflow is called 'paper'"),
        ((-1, None, "drop-head", Marks.NONE), "max_count"),
    ],
)
def test_limits_cannot_be_wrong(wrong: tuple[Any, Any, Any, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        QueueLimits(*wrong)


# Declarations.


def limits(defaults: FlowDefaults = NO_DEFAULTS, /, **arguments: object) -> QueueLimits:
    """Return the limits of arguments, whose names are written with _ for - and . in this file."""
    return asked_limits({spelling(name): value for name, value in arguments.items()}, defaults)


def spelling(name: str) -> str:
    return name.replace("qpid_", "qpid.", 1) if name.startswith("qpid_") else name.replace("_", "-")


def flow(count: int | None = None, nbytes: int | None = None, *marks: int) -> QueueLimits:
    return QueueLimits(count, nbytes, "flow", Marks(*marks))


def test_a_queue_that_says_nothing_has_the_defaults() -> None:
    assert limits() == flow()
    assert limits(FlowDefaults(1000, 0, 80, 70)) == flow(1000, None, 800, 700)
    assert limits(FlowDefaults(1000, 10_000, 50, 10)) == flow(1000, 10_000, 500, 100, 5000, 1000)
    assert limits(FlowDefaults(1000, 0), x_max_priority=5, x_message_ttl=3) == flow(1000, None, 800, 700)


@pytest.mark.parametrize("overflow", ["drop-head", "reject", "reject-publish", "reject-publish-dlx"])
def test_rabbitmq_meaning_is_kept(overflow: Any) -> None:
    assert limits(x_max_length=5, x_overflow=overflow) == QueueLimits(5, None, overflow, Marks.NONE)
    assert limits(x_max_length_bytes=0, x_overflow=overflow) == QueueLimits(None, 0, overflow, Marks.NONE)
    assert limits(x_overflow=overflow) == QueueLimits(None, None, overflow, Marks.NONE)
    assert limits(FlowDefaults(9), x_overflow=overflow) == QueueLimits(9, None, overflow, Marks.NONE)


def test_without_overflow_the_oldest_are_dropped_and_defaults_do_not_apply() -> None:
    dropping = QueueLimits(5, 6, "drop-head", Marks.NONE)
    assert limits(FlowDefaults(3, 3), x_max_length=5, x_max_length_bytes=6) == dropping


@pytest.mark.parametrize(
    ("limit", "stop", "resume"), [(1000, 800, 700), (10, 8, 7), (2, 1, 1), (1, 1, 0), (0, 1, 0), (2**62, None, None)]
)
def test_flow_marks_are_percentages(limit: int, stop: int | None, resume: int | None) -> None:
    stop = limit * 8 // 10 if stop is None else stop
    resume = limit * 7 // 10 if resume is None else resume
    assert limits(x_max_length=limit, x_overflow="flow") == flow(limit, None, stop, resume)
    assert limits(x_max_length_bytes=limit, x_overflow="flow") == flow(None, limit, 0, 0, stop, resume)


def test_qpid_cpp() -> None:
    assert limits(qpid_max_count=100) == flow(100, None, 80, 70)
    assert limits(qpid_max_size=100, qpid_max_count=10) == flow(10, 100, 8, 7, 80, 70)
    assert limits(qpid_max_count=100, qpid_flow_stop_count=50, qpid_flow_resume_count=20) == flow(100, None, 50, 20)
    assert limits(qpid_max_size=100, qpid_flow_stop_size=50, qpid_flow_resume_size=20) == flow(None, 100, 0, 0, 50, 20)
    assert limits(qpid_flow_stop_count=80) == flow(None, None, 80, 70)
    assert limits(qpid_max_count=100, qpid_flow_resume_count=80) == flow(100, None, 80, 80)
    assert limits(qpid_max_count="100") == limits(qpid_max_count=100)


def test_qpid_cpp_zeros() -> None:
    assert limits(FlowDefaults(5), qpid_max_count=0) == flow()
    assert limits(qpid_max_count=100, qpid_flow_stop_count=0) == flow(100, None, 100, 87)
    assert limits(qpid_flow_stop_count=0, qpid_flow_resume_count=0) == flow()
    assert limits(qpid_flow_stop_count=10, qpid_flow_resume_count=0) == flow(None, None, 10, 0)


def test_qpid_java() -> None:
    assert limits(x_qpid_capacity=1000) == flow(None, None, 0, 0, 1000, 875)
    assert limits(x_qpid_capacity=1000, x_qpid_flow_resume_capacity=500) == flow(None, None, 0, 0, 1000, 500)
    assert limits(x_qpid_capacity=0) == flow()


def test_sizes_and_percentages() -> None:
    assert limits(qpid_max_size="10 MB") == flow(None, 10_000_000, 0, 0, 8_000_000, 7_000_000)
    assert limits(x_flow_stop_size="1 MiB", x_flow_resume_size="512 KiB") == flow(None, None, 0, 0, MIB, 512 * KIB)
    half = {"x_flow_stop_count": "50 %", "x_flow_resume_count": "25 %"}
    assert limits(x_max_length=1000, **half) == flow(1000, None, 500, 250)
    assert limits(x_max_length=1000, x_flow_stop_count="100%") == flow(1000, None, 1000, 875)
    assert limits(qpid_max_count=10, x_flow_stop_count=9, qpid_flow_stop_count=7) == flow(10, None, 7, 6)


def test_flow_off() -> None:
    assert limits(FlowDefaults(5), x_flow="off") == flow()
    assert limits(x_max_length=5, x_flow="off") == QueueLimits(5, None, "drop-head", Marks.NONE)
    assert limits(x_max_length=5, x_overflow="flow", x_flow="off") == flow()
    assert limits(FlowDefaults(10), x_flow="on") == flow(10, None, 8, 7)


@pytest.mark.parametrize(
    ("policy_type", "overflow"), [("reject", "reject-publish"), ("ring", "ring"), ("ring_strict", "ring-strict")]
)
def test_policy_types_of_qpid(policy_type: str, overflow: Any) -> None:
    assert limits(qpid_max_count=5, qpid_policy_type=policy_type) == QueueLimits(5, None, overflow, Marks.NONE)
    assert limits(qpid_max_count=5, qpid_policy_type=policy_type, x_overflow="flow") == flow(5, None, 4, 3)


def test_flow_to_disk_stops_nobody() -> None:
    assert limits(qpid_max_count=5, qpid_policy_type="flow_to_disk") == QueueLimits(5, None, "spill", Marks.NONE)
    assert limits(x_overflow="spill", x_max_length=5) == QueueLimits(5, None, "spill", Marks.NONE)


def test_dialects_together() -> None:
    assert limits(x_max_length=100, qpid_flow_stop_count=60) == flow(100, None, 60, 52)
    assert limits(x_max_length=100, qpid_max_count=50) == flow(50, None, 40, 35)
    assert limits(x_max_length=100, qpid_max_count=0) == flow(100, None, 80, 70)
    assert limits(qpid_max_count=50, x_overflow="reject-publish") == QueueLimits(50, None, "reject-publish", Marks.NONE)
    assert limits(FlowDefaults(100), qpid_flow_resume_count=10) == flow(100, None, 80, 10)


ENOUGH = 2**63
NO_AMOUNT = "is not an amount: write it like 10000, 10 MB, 512 KiB or 80 %"


@pytest.mark.parametrize(
    ("arguments", "argument", "reason"),
    [
        ({"x_max_length": "5"}, "x-max-length", '"expected integer, got longstr"'),
        ({"x_max_length": True}, "x-max-length", '"expected integer, got bool"'),
        ({"x_max_length_bytes": 1.5}, "x-max-length-bytes", '"expected integer, got double"'),
        ({"x_max_length_bytes": None}, "x-max-length-bytes", '"expected integer, got void"'),
        ({"qpid_max_count": Decimal(1)}, "qpid.max_count", '"expected integer, got decimal"'),
        ({"qpid_max_count": "a lot"}, "qpid.max_count", f"\"'a lot' {NO_AMOUNT}\""),
        ({"qpid_max_count": "²"}, "qpid.max_count", f"\"'²' {NO_AMOUNT}\""),
        ({"qpid_max_count": "1" * 5000}, "qpid.max_count", f"\"'{'1' * 40}' {NO_AMOUNT}\""),
        ({"qpid_max_count": "10 MB"}, "qpid.max_count", "\"'10 MB' is not a number of messages\""),
        ({"x_flow_stop_count": "80 %"}, "x-flow-stop-count", '"80 % of a limit that is not given"'),
        (
            {"qpid_max_count": 10, "x_flow_stop_count": "101 %"},
            "x-flow-stop-count",
            "\"'101 %' is not between 0 % and 100 %\"",
        ),
        (
            {"qpid_max_count": 10, "x_flow_resume_count": "90 %"},
            "x-flow-resume-count",
            '"resume mark 9 is above the stop mark 8 (80 % of qpid.max_count 10)"',
        ),
        ({"x_flow_stop_count": 10, "x_flow": "off"}, "x-flow-stop-count", "\"a mark needs x-flow 'on'\""),
        ({"x_flow": "of"}, "x-flow", "invalid_flow"),
        ({"x_flow": True}, "x-flow", "{unacceptable_type,bool}"),
        ({"qpid_policy_type": "squeeze"}, "qpid.policy_type", "invalid_policy_type"),
        ({"x_max_length": -1}, "x-max-length", "{value_negative,-1}"),
        ({"x_qpid_capacity": ENOUGH}, "x-qpid-capacity", f"{{value_too_large,{ENOUGH}}}"),
        ({"x_overflow": "paper"}, "x-overflow", "invalid_overflow"),
        ({"x_overflow": b"\xff"}, "x-overflow", "{unacceptable_type,binary}"),
        ({"x_overflow": 1}, "x-overflow", "{unacceptable_type,signedint}"),
        (
            {"qpid_max_count": 100, "qpid_flow_stop_count": 101},
            "qpid.flow_stop_count",
            '"stop mark 101 is above the limit 100 (qpid.max_count)"',
        ),
        (
            {"x_max_length_bytes": 10, "x_qpid_capacity": 11},
            "x-qpid-capacity",
            '"stop mark 11 is above the limit 10 (x-max-length-bytes)"',
        ),
        (
            {"qpid_flow_stop_count": 5, "qpid_flow_resume_count": 6},
            "qpid.flow_resume_count",
            '"resume mark 6 is above the stop mark 5 (qpid.flow_stop_count)"',
        ),
        (
            {"x_max_length": 100, "x_overflow": "flow", "qpid_flow_resume_count": 81},
            "qpid.flow_resume_count",
            '"resume mark 81 is above the stop mark 80 (80 % of x-max-length 100)"',
        ),
        (
            {"x_qpid_capacity": 5, "x_qpid_flow_resume_capacity": 6},
            "x-qpid-flow-resume-capacity",
            '"resume mark 6 is above the stop mark 5 (x-qpid-capacity)"',
        ),
        ({"qpid_flow_resume_size": 6}, "qpid.flow_resume_size", '"resume mark 6 has no stop mark"'),
        (
            {"x_max_length": 5, "x_overflow": "drop-head", "qpid_flow_stop_count": 3},
            "qpid.flow_stop_count",
            "\"a mark needs x-overflow 'flow', not 'drop-head'\"",
        ),
    ],
)
def test_refusals_say_which_and_why(arguments: dict[str, object], argument: str, reason: str) -> None:
    with pytest.raises(ArgumentError) as refusal:
        limits(**arguments)
    assert (refusal.value.argument, str(refusal.value)) == (argument, reason)


def test_a_resume_mark_above_the_node_s_own_stop_mark() -> None:
    with pytest.raises(ArgumentError, match=r"above the stop mark 80 \(80 % of the node's max_count 100\)"):
        limits(FlowDefaults(100), qpid_flow_resume_count=90)


NAMES = ["x-max-length", "x-max-length-bytes", "qpid.max_count", "qpid.max_size", "qpid.flow_stop_count"]
NAMES += ["qpid.flow_resume_count", "qpid.flow_stop_size", "qpid.flow_resume_size", "x-qpid-capacity"]
NAMES += ["x-qpid-flow-resume-capacity", "x-flow-stop-count", "x-flow-resume-size"]
values = st.integers(0, 20) | st.integers(-(2**63), 2**64) | st.text("0123456789x", max_size=3) | st.none()
declarations = st.builds(
    lambda limits, overflow: limits | overflow,
    st.dictionaries(st.sampled_from(NAMES), values | st.integers(0, 20), max_size=4),
    st.just({}) | st.fixed_dictionaries({"x-overflow": st.sampled_from([*OVERFLOWS, "paper", 5])}),
)


def taken_or_refused(arguments: dict[str, object], defaults: FlowDefaults) -> QueueLimits | ArgumentError:
    try:
        return asked_limits(arguments, defaults)
    except ArgumentError as refusal:
        return refusal


@given(arguments=declarations, defaults=flow_defaults)
def test_declarations_are_taken_or_refused_and_survive_the_bus(
    arguments: dict[str, object], defaults: FlowDefaults
) -> None:
    taken = taken_or_refused(arguments, defaults)
    if isinstance(taken, ArgumentError):
        assert taken.argument in arguments and str(taken)
        return
    assert taken.overflow == arguments.get("x-overflow", taken.overflow)
    assert taken.overflow in OVERFLOWS and (taken.overflow == "flow" or not taken.marks)
    assert QueueLimits.from_wire(msgpack.unpackb(msgpack.packb(taken.to_wire()))) == taken
    if not arguments:
        assert (taken.max_count or 0, taken.max_bytes or 0) == (defaults.max_count, defaults.max_bytes)


@pytest.mark.parametrize(
    ("arguments", "adapted"),
    [
        ({"x_max_length": 5, "qpid_flow_stop_count": 20, "qpid_flow_resume_count": 10}, flow(5, None, 5, 5)),
        ({"x_max_length": 5, "x_overflow": "flow", "qpid_flow_resume_count": 10}, flow(5, None, 4, 4)),
        ({"x_max_length": 0, "qpid_flow_stop_count": 20}, flow(0, None, 1, 0)),
        ({"qpid_flow_resume_size": 6}, flow()),
        ({"x_max_length": 5, "x_overflow": "drop-head", "qpid_flow_stop_count": 3},
         QueueLimits(5, None, "drop-head", Marks.NONE)),
    ],
)  # fmt: skip
def test_marks_that_do_not_go_with_the_rest_are_adapted(arguments: dict[str, object], adapted: QueueLimits) -> None:
    spelled = {spelling(name): value for name, value in arguments.items()}
    assert asked_limits(spelled, NO_DEFAULTS, adapt=True) == adapted


@given(
    arguments=st.dictionaries(st.sampled_from(NAMES), st.integers(0, 20), max_size=6),
    overflow=st.sampled_from([None, *OVERFLOWS]),
    defaults=flow_defaults,
)
def test_adapting_refuses_no_number_and_changes_nothing_that_was_right(
    arguments: dict[str, object], overflow: str | None, defaults: FlowDefaults
) -> None:
    asked = arguments if overflow is None else {**arguments, "x-overflow": overflow}
    taken = taken_or_refused(asked, defaults)
    adapted = asked_limits(asked, defaults, adapt=True)
    assert isinstance(taken, ArgumentError) or adapted == taken


@given(limit=st.integers(0, NUMBER_MAX), percent=percents)
def test_marks_from_percentages_fit_the_limit(limit: int, percent: list[int]) -> None:
    defaults = FlowDefaults(stop_percent=percent[1], resume_percent=percent[0])
    marks = limits(defaults, x_max_length=limit, x_overflow="flow").marks
    assert 0 <= marks.resume_count <= marks.stop_count <= max(1, limit) and marks.stop_count >= 1


@given(marks=marks, count=st.integers(0, 10**6), size=st.integers(1, 10**4))
def test_messages_that_are_missing_to_a_stop_mark_and_that_have_to_leave(marks: Marks, count: int, size: int) -> None:
    """For messages of one size: `missing` more reach the first stop mark, `excess` fewer are at both resume marks."""
    missing, excess = marks.missing(count, size * count), marks.excess(count, size * count)
    by_mark = [(marks.stop_count, marks.resume_count, 1)] * bool(marks.stop_count)
    by_mark += [(marks.stop_bytes, marks.resume_bytes, size)] * bool(marks.stop_bytes and count)
    assert (missing is None) == (not by_mark)
    if missing is not None:
        assert missing == pytest.approx(max(min(stop / each - count for stop, _, each in by_mark), 0))
    assert excess == pytest.approx(max([0, *(count - resume / each for _, resume, each in by_mark)]))
