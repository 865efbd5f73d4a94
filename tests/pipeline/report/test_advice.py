"""The sentences of a report: who was held and why, what to change, what comes next."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.administration import policy
from pipeline.report.advice import MARKS_NOTE, PLAN_NOTE, Advice, advise
from pipeline.report.causes import FAULTS, FAULTS_IN_ORDER, LONG
from pipeline.report.contents import Report
from tests.pipeline.report.reports import NASTY, SINCE, SLOT_US, add, quiet, reported, trouble
from tests.pipeline.report.test_commands import parsed

HELD = {"node": "n", "vhost": "/", "queue": "orders", "user": "ann", "product": "pika"}


def held(
    cause: str = "count", fault: str = "producers", queue: str | None = "orders", ms: int = 90_000, **facts: Any
) -> Report:
    """Return a report in which one user was held, once."""
    report = quiet(until=SINCE + SLOT_US)
    row = HELD | {"queue": f"({cause})" if queue is None else queue}
    add(report, "held", **row, stopped_ms=ms, longest_ms=ms, **{"episodes": 1, "channels": 1, **facts})
    add(report, "culprits", **row, fault=fault, stopped_ms=ms, episodes=1)
    add(report, "episodes", **row | {"queue": queue}, cause=cause, started=SINCE, ended=SINCE + ms * 1000,
        stopped_ms=ms, outcome="free", connection="1", channel=1)  # fmt: skip
    for answer in report.answers.values():
        for each in answer.rows:
            each["node"] = "n"
    return report


def test_a_quiet_time_is_one_sentence() -> None:
    assert advise(quiet()) == Advice("No producer was held, and no queue grows towards its mark.")


def test_a_time_without_rows_is_one_sentence() -> None:
    report = quiet()
    report.counts = {name: {"rows": 0, "corrupt": 0, "lost": 0} for name in report.counts}
    assert advise(report) == Advice("Telemetry has no rows of this time, so nothing is known of it.")


def test_a_single_hold_in_full() -> None:
    advice = advise(held(fault="no consumers"))
    assert advice.held == (
        "User 'ann' (pika) was held longest by one queue: 90 s on one channel, by queue 'orders', because it had no "
        "consumers."
    )
    assert advice.change is not None
    assert advice.change.text == "Start a consumer of queue 'orders'; this lists those that it has."
    assert advice.change.command == "penstock consumer list --vhost=/ --queue=orders"
    assert advice.next == "No queue is full, or grows towards its mark."


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named_and_has_its_advice(fault: str) -> None:
    advice = advise(held(fault=fault))
    assert f", {'because ' * (fault != 'unknown')}{FAULTS[fault]}." in advice.held
    assert advice.change is not None and "queue 'orders'" in advice.change.text
    assert advice.change.command is not None
    words = {"unknown": ("flow", "explain")}.get(fault, ("consumer", "list"))
    assert parsed(advice.change.command)[:2] == words


@pytest.mark.parametrize("cause", LONG)
@pytest.mark.parametrize("queue", [None, "orders"])
def test_each_limit_is_named_and_has_its_advice(cause: str, queue: str | None) -> None:
    advice = advise(held(cause, "limit" if queue is None else "producers", queue))
    place = "" if queue is None else ", queue 'orders'"
    assert f"held longest by one cause: 90 s on one channel, by {LONG[cause]}{place}." in advice.held
    assert advice.change is not None and advice.change.command is not None
    words = parsed(advice.change.command)[:2]
    assert words == {"operator": ("flow", "stops"), "rebalance": ("rebalance", "history")}.get(
        cause, ("queue", "list") if cause in MEMORY else ("policy", "list")
    )


MEMORY = ("memory", "process memory", "store", "spill", "link", "pressure")


def test_a_limit_is_known_by_its_name_where_its_episodes_are_not() -> None:
    report = held("memory", "limit", None)
    report.answers["episodes"].rows.clear()
    assert LONG["memory"] in advise(report).held


def test_a_queue_that_is_named_like_a_cause_is_a_queue() -> None:
    assert "by queue '(memory)'" in advise(held("count", "no consumers", "(memory)")).held


def test_sums_say_what_they_sum_and_the_share_of_the_worst() -> None:
    report = held(channels=3, episodes=9)
    report.rows("held")[0]["longest_ms"] = 20_000
    add(report, "held", **HELD | {"user": "ben"}, stopped_ms=30_000, longest_ms=30_000, episodes=1, channels=1)
    ledger = report.rows("culprits")[0]
    ledger |= {"pusher": "ben", "pusher_share": 0.75}
    add(report, "culprits", **HELD, fault="consumers slow", stopped_ms=20_000, episodes=1)
    assert advise(report).held == (
        "User 'ann' (pika) was held longest by one queue: 90 s, summed over channels, at most 20 s at a time, by queue "
        "'orders', mostly because more was published than its consumers handle at their usual speed, 75% of it by user "
        "'ben'; all producers together 2 min."
    )


def test_a_known_fault_goes_before_an_unknown_one_with_its_share() -> None:
    report = held(fault="no consumers", ms=30_000)
    add(report, "culprits", **HELD, fault="unknown", stopped_ms=70_000, episodes=1)
    assert ", for 30% of that time because it had no consumers." in advise(report).held


def test_marks_are_advised_if_they_would_have_held_for_less() -> None:
    report = held()
    place = {name: HELD[name] for name in ("node", "vhost", "queue")}
    marks = {"stop_count": 1_200, "resume_count": 840}
    add(report, "marks", **place, **marks, stop_bytes=5_000, resume_bytes=3_500)
    add(report, "what_if", **place, **marks, stopped_ms=30_000, was_stopped_ms=90_000)
    change = advise(report).change
    assert change is not None and change.note == MARKS_NOTE and change.command is not None
    assert "to 1,200 and 840 messages: they would have held its producers for 30 s instead of 90 s" in change.text
    words, values = parsed(change.command)[:2], parsed(change.command)[2]
    assert words == ("policy", "set")
    assert json.loads(values["definition"]) == {
        "flow-stop-count": 1200, "flow-resume-count": 840, "flow-stop-size": 5000, "flow-resume-size": 3500
    }  # fmt: skip
    report.rows("what_if")[0]["stopped_ms"] = 85_000
    change = advise(report).change
    assert change is not None and "Start more consumers" in change.text


@pytest.mark.parametrize("cause", ["count", "memory"])
def test_a_hot_shard_is_to_be_relieved(cause: str) -> None:
    report = held(cause, "producers" if cause == "count" else "limit", "orders" if cause == "count" else None)
    add(report, "rebalance_inputs", node="n", vhost="/", queue="orders", shard=2)
    report.rows("hot_shards")[2] |= {"hot": True, "why": "load", "load_to_mean": 2.41}
    change = advise(report).change
    assert change is not None and change.note == PLAN_NOTE and change.command is not None
    assert change.text == "Move queues off shard 2, which has 2.4 times the mean load."
    assert parsed(change.command)[:2] == ("rebalance", "plan")
    report.rows("hot_shards")[2]["why"] = "lag"
    change = advise(report).change
    assert change is not None and "a late loop" in change.text


def test_harm_that_has_held_nobody_yet_is_advised_on() -> None:
    report = quiet()
    report.rows("hot_shards")[2] |= {"hot": True, "why": "load", "load_to_mean": 2.0}
    advice = advise(report)
    assert advice.held == "No producer was held."
    assert advice.change is not None and "Move queues off shard 2" in advice.change.text
    add(report, "consumers", node="node-1", vhost="eu", queue="q", verdict="forgotten")
    advice = advise(report)
    assert advice.change is not None
    assert advice.change.text == "Look after the consumers of queue 'q' in vhost 'eu': forgotten."


def test_what_comes_next_names_the_first_queue_and_counts_the_others() -> None:
    report = held(open=2)
    full = {"node": "n", "vhost": "/", "shard": 0, "full_by": "count"}
    add(report, "time_to_full", **full, queue="a")
    assert advise(report).next == "Queue 'a' is full at the end of this time; 2 holds have not ended."
    add(report, "time_to_full", **full, queue="b")
    add(report, "time_to_full", **full, queue="c", seconds=120.0, growth=3.25)
    add(report, "time_to_full", **full | {"full_by": "bytes"}, queue="d", seconds=240.0, growth_bytes=1234.0)
    assert advise(report).next == (
        "Queue 'a' and another one are full at the end of this time; 2 holds have not ended; queue 'c' will be full in "
        "2 min, as it grows by 3.25 messages a second, and another one later."
    )
    del report.rows("time_to_full")[:3]
    assert "as it grows by 1,234 bytes a second" in str(advise(report).next)


def test_nodes_are_named_if_there_are_several() -> None:
    advice = advise(trouble(("here", "there")))
    assert "by queue 'orders' on here" in advice.held
    assert advice.change is not None and "queue 'orders' on here" in advice.change.text
    assert "queue 'invoices' on here" in str(advice.next).lower()
    assert " on here" not in advise(trouble(("here",))).held


def test_a_name_that_a_terminal_cannot_show_has_no_command() -> None:
    report = held(fault="no consumers", queue="a\x1b[2Jb")
    advice = advise(report)
    assert advice.change is not None and advice.change.command is None


names = st.text(max_size=20)


@given(
    names, names, names, st.sampled_from(FAULTS_IN_ORDER), st.sampled_from(["count", "bytes", *LONG, "of a newer one"]),
    st.booleans(), st.integers(0, 10**12),
)  # fmt: skip
def test_every_report_has_sentences_and_commands_that_penstock_takes(
    queue: str, vhost: str, user: str, fault: str, cause: str, has_queue: bool, ms: int
) -> None:
    report = held(cause, fault, queue if has_queue else None, ms)
    for name in ("held", "culprits", "episodes"):
        for row in report.rows(name):
            row |= {"vhost": vhost, "user": user}
    advice = advise(report)
    sentences = [advice.held, advice.change.text if advice.change else None, advice.next]
    for sentence in filter(None, sentences):
        assert sentence.endswith(".") and sentence[0].isupper()
    assert ms == 0 or f"User '{user}'" in advice.held
    if advice.change and advice.change.command:
        parsed(advice.change.command)
        assert shlex.split(advice.change.command)[0] == "penstock"


def test_rows_full_of_traps_have_sentences() -> None:
    for rows in (1, 2, 40):
        assert NASTY in advise(reported(rows)).held


def test_the_notes_name_commands() -> None:
    assert "penstock policy explain" in MARKS_NOTE and policy.explain
    assert (
        parsed("penstock rebalance apply PLAN")[:2] == ("rebalance", "apply")
        and "penstock rebalance apply" in PLAN_NOTE
    )
