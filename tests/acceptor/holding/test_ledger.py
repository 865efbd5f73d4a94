"""The ledger: accounts of held producers, and incidents."""

from __future__ import annotations

from typing import get_args

import pytest

from acceptor.gates.cause import Kind
from acceptor.holding import ledger
from acceptor.holding.ledger import Ledger
from penstock.memory.records import HELD_KINDS
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

MARKS = {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 0}


def publisher(node: Node, *channels: int) -> Client:
    """Return a client whose channels are held by the queue `full`."""
    client = node.connect()
    for channel in channels:
        client.call("channel.open", channel)
        for _ in range(4):
            client.publish(channel, b"x", routing_key="full")
    node.settle(1)
    return client


def accounts(node: Node, by: str) -> dict[tuple[str, str], tuple[float, int]]:
    reported = node.core(0).holding.books.ledger.report(node.core(0).state.now)
    return {(each["vhost"], each["name"]): (each["seconds"], each["stops"]) for each in reported if each["by"] == by}


def pass_time(node: Node, seconds: float) -> None:
    node.now += seconds
    node.core(0).state.now += seconds


def test_time_is_kept_for_each_kind_of_cause_that_holds() -> None:
    assert {*HELD_KINDS, "routing"} == set(get_args(Kind))


def test_each_account_has_the_seconds_also_of_who_is_held_still() -> None:
    with Node() as node:
        node.declare("full", **MARKS)
        client = publisher(node, 1, 2)
        connection = next(iter(node.core(0).state.connections.values()))
        held = len(node.core(0).holding.holds.held)
        assert held
        pass_time(node, 5)
        (expected,) = accounts(node, "queue").values()
        assert expected == (pytest.approx(5.0 * held, abs=held), held)
        assert accounts(node, "queue") == {("/", "full"): expected}
        assert accounts(node, "user") == {("", "guest"): expected}
        assert accounts(node, "vhost") == {("", "/"): expected}
        assert accounts(node, "exchange") == {("/", ""): expected}
        assert accounts(node, "connection") == {("", connection.id): expected}
        client.lose()
        node.settle()
        assert accounts(node, "connection") == {}
        assert accounts(node, "queue")["/", "full"][0] >= expected[0]
        (record,) = node.core(0).holding.books.ledger.records
        assert node.core(0).holding.books.ledger.open_records(node.core(0).state.now) == []
        assert (record["kind"], record["vhost"], record["queue"]) == ("queue", "/", "full")
        assert record["holds"] == held and record["held_seconds"] >= expected[0]
        assert record["ended"] - record["begun"] >= 5
        assert record["victims"][0]["connection"] == connection.id


def test_accounts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MOST", 10)
    made = Ledger()
    for number in range(100):
        made.enter("queue", ("/", f"q{number}"), float(number))
    reported = [each for each in made.report(0.0) if each["by"] == "queue"]
    assert len(reported) <= 11
    assert sum(each["seconds"] for each in reported) == sum(range(100))
    assert sum(each["stops"] for each in reported) == 100
    assert {"others", "q99"} <= {each["name"] for each in reported}


def test_what_holds_for_short_is_summed_up() -> None:
    with Node() as node:
        node.declare("full", **MARKS)
        purger = node.connect()
        purger.call("channel.open", 1)
        for seconds in (0.25, 0.5, 0.25):
            client = publisher(node, 1)
            pass_time(node, seconds)
            for _ in range(2):
                purger.call("queue.purge", 1, queue="full")
                node.settle(1)
            client.lose()
        ledger = node.core(0).holding.books.ledger
        assert ledger.records == []
        (found,) = ledger.short_stops.take_all()
        assert (found["kind"], found["queue"], found["stops"], found["holds"]) == ("queue", "full", 3, 3)
        assert 1 <= found["seconds"] == pytest.approx(found["held_seconds"]) and 0.5 <= found["longest"] < 1
        assert len(found["victims"]) == 3


def test_a_limit_over_several_queues_is_no_queue() -> None:
    with Node() as node:
        node.declare("full")
        node.policy("p", "^/$", {"sum-stop-count": 2, "sum-resume-count": 0}, "vhosts", "")
        client = publisher(node, 1)
        pass_time(node, 5)
        assert set(accounts(node, "queue")) == {("/", "(limit)")}
        client.lose()
        node.settle()
        (record,) = node.core(0).holding.books.ledger.records
        assert (record["kind"], record["vhost"], record["queue"], record["of"]) == ("limit", None, None, "vhost '/'")


def test_incidents_that_are_not_over_have_who_is_held_and_was(monkeypatch: pytest.MonkeyPatch) -> None:
    with Node() as node:
        for name in ("full", "other"):
            node.declare(name, **MARKS)
        first, second = publisher(node, 1), publisher(node, 1, 2)
        core = node.core(0)
        held = len(core.holding.holds.held)
        (incident,) = core.holding.books.ledger.open.values()
        assert core.holding.books.ledger.open_records(incident.begun + 0.5) == [], "it is short so far"
        pass_time(node, 5)
        first.lose()
        node.settle()
        pass_time(node, 5)
        (record,) = core.holding.books.ledger.open_records(core.state.now)
        assert (record["kind"], record["queue"], record["ended"]) == ("queue", "full", core.state.now)
        assert record["holds"] == held and len(record["victims"]) == 2
        gone, there = record["victims"]
        assert record["begun"] == gone["since"] < there["since"] < core.state.now - 10
        assert 5 <= gone["held_seconds"] < 10 < there["held_seconds"]
        assert gone["held_seconds"] + there["held_seconds"] == pytest.approx(record["held_seconds"], abs=0.01)
        running = sum(seconds for seconds, _ in accounts(node, "queue").values())
        assert record["held_seconds"] == pytest.approx(running, abs=0.01)
        monkeypatch.setattr(ledger, "OPEN_MOST", 0)
        assert core.holding.books.ledger.open_records(core.state.now) == []
        second.lose()
        node.settle()
        assert len(core.holding.books.ledger.records) == 1
