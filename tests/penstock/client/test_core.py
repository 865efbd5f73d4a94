"""A producer's reactions to its broker's answers and flow control."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from itertools import count

import pytest

from penstock.client.core import Core, report_commands, resolve
from penstock.client.errors import NotConnected, Refused, Rejected, Stopped, Unroutable, WindowFull
from penstock.client.options import FlowCommand


def made(window: int = 3, nbytes: int = 1000) -> Core:
    core = Core(window, nbytes, 10.0, "broker:5672", 0.0)
    core.connected(1.0)
    return core


def accept(core: Core, now: float, number: int = 0) -> Future[str]:
    receipt: Future[str] = Future()
    core.accept(b"x", "", "q", {"message_id": str(number)}, True, receipt, now)
    return receipt


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the client's own log lines: objects of other tests may be collected, and complain, at any time."""
    return [record.getMessage() for record in caplog.records if record.name == "penstock.client"]


def test_each_cause_holds_and_is_counted_by_itself() -> None:
    core = made(window=1)
    receipt = accept(core, 2.0)
    core.flow(False, 3.0)
    core.blocked("queue 'q' is full", 4.0)
    assert not core.may_publish and not list(core.due())
    assert core.why() == (
        "1 of 1 messages to broker:5672 are not confirmed; channel.flow of broker:5672; "
        "connection.blocked of broker:5672: queue 'q' is full"
    )
    core.flow(True, 5.0)
    core.unblocked(7.0)
    assert [tag for tag, _ in core.due()] == [1]
    core.settled(1, False, True, 9.0)
    resolve(core.outcomes)
    assert receipt.result(0) == "0"
    metrics = core.metrics(20.0)
    assert metrics.held_seconds_by_cause == {"connection": 1.0, "window": 7.0, "flow": 2.0, "blocked": 3.0}
    assert metrics.held_seconds == 1.0 + 7.0 and not metrics.held
    assert (metrics.flow_commands, metrics.sent, metrics.confirmed) == (4, 1, 1)


def test_what_may_not_wait_is_told_why_by_its_class() -> None:
    core = made(window=1)
    accept(core, 2.0)
    assert type(core.full()) is WindowFull
    core.blocked("no memory", 3.0)
    assert type(core.full()) is Stopped
    core.disconnected(0, "gone", 4.0)
    assert type(core.full()) is NotConnected
    assert core.metrics(5.0).full == 3


def test_a_stop_between_two_messages_stops_the_second() -> None:
    core = made()
    accept(core, 2.0, 0)
    accept(core, 2.0, 1)
    published = []
    for tag, _message in core.due():
        published.append(tag)
        core.flow(False, 3.0)
    assert published == [1]
    core.flow(True, 4.0)
    assert [tag for tag, _ in core.due()] == [2]


def test_an_error_for_each_answer() -> None:
    core = made(window=9)
    receipts = [accept(core, 2.0, number) for number in range(4)]
    list(core.due())
    core.returned("1", 312, "NO_ROUTE", "", "q", {})
    core.settled(2, True, True, 3.0)
    core.settled(3, False, False, 3.0)
    core.disconnected(406, "PRECONDITION_FAILED", 3.0)
    resolve(core.outcomes)
    assert receipts[0].result(0) == "0"
    for receipt, error in zip(receipts[1:], (Unroutable, Rejected, Refused), strict=True):
        assert type(receipt.exception(0)) is error
    metrics = core.metrics(4.0)
    assert (metrics.confirmed, metrics.returned, metrics.rejected, metrics.refused) == (1, 1, 1, 1)


def test_what_is_returned_for_another_reason_than_its_route_is_rejected() -> None:
    core = made()
    receipt = accept(core, 2.0)
    list(core.due())
    core.returned("0", 311, "CONTENT_TOO_LARGE", "", "q", {"x-flow-wait": 3})
    core.settled(1, False, False, 3.0)
    resolve(core.outcomes)
    error = receipt.exception(0)
    assert isinstance(error, Rejected) and error.headers == {"x-flow-wait": 3}
    assert (core.metrics(4.0).rejected, core.metrics(4.0).returned) == (1, 0)


def test_still_blocked_is_said_once_in_a_while_for_all(caplog: pytest.LogCaptureFixture) -> None:
    core = made()
    core.blocked("queue 'q' is full", 2.0)
    with caplog.at_level(logging.WARNING, "penstock.client"):
        core.waiting = {1: 3.0, 2: 5.0}
        for now in count(4):
            core.log_waiting(float(now))
            if now == 30:
                break
    assert said(caplog) == [
        f"still blocked for {seconds} s, by connection.blocked of broker:5672: queue 'q' is full (2 wait)"
        for seconds in (10, 20)
    ]


def test_failures_nobody_looks_at_are_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    core = made(window=9)
    for number in range(5):
        accept(core, 2.0, number)
    list(core.due())
    with caplog.at_level(logging.WARNING, "penstock.client"):
        core.settled(4, True, False, 3.0)
        core.settled(5, False, False, 13.5)
    first, second = said(caplog)
    assert first.startswith("message 0 failed") and second.startswith("message 4 failed")
    assert second.endswith("(and 3 before)")


def test_each_command_is_told_and_a_loss_ends_what_was_said() -> None:
    core = made()
    core.flow(False, 2.0)
    core.blocked("queue 'q' is full", 3.0)
    core.blocked("queue 'r' is full", 4.0)
    core.flow(True, 5.0)
    core.unblocked(6.0)
    core.flow(False, 7.0)
    core.disconnected(320, "CONNECTION_FORCED", 9.0)
    assert core.commands == [
        FlowCommand(True, "flow", "", 0.0),
        FlowCommand(True, "blocked", "queue 'q' is full", 0.0),
        FlowCommand(True, "blocked", "queue 'r' is full", 0.0),
        FlowCommand(False, "flow", "", 3.0),
        FlowCommand(False, "blocked", "", 3.0),
        FlowCommand(True, "flow", "", 0.0),
        FlowCommand(False, "flow", "connection lost: 320 CONNECTION_FORCED", 2.0),
    ]


def test_an_error_of_who_is_told_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    reported: list[FlowCommand] = []

    def on_flow(command: FlowCommand) -> None:
        reported.append(command)
        raise RuntimeError("of the caller's")

    commands = [FlowCommand(True, "flow", "", 0.0), FlowCommand(False, "flow", "", 1.0)]
    report_commands(on_flow, commands)
    report_commands(None, commands)
    assert reported == commands
    assert said(caplog) == ["on_flow failed", "on_flow failed"]
