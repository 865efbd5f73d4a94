"""The search for deadlocks: its questions to an in-memory node, and its requests to the queues of a circle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from ops.administration.processes import Processes
from ops.deadlock_search import Asking, DeadlockSearch, Moved, QueueCheck, _refuse_youngest, acceptor_of
from ops.errors import CommandError
from ops.flow.circles import Circle, Times
from tests.ops.commanded import Commanded
from tests.ops.flow.full import MARKS, STOP, pass_time
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import open_channel

AT_ONCE = Times(0.0, 0.0)
NEVER = Times(1e9, 1e9)
NOW = 100.0
PATIENCE = 15.0
"""The setting flow.deadlock_seconds."""


def worker(commanded: Commanded, source: str, target: str) -> Client:
    """Return a client that keeps messages of one queue unacked and has filled the other."""
    client = open_channel(commanded.node)
    client.call("basic.consume", 1, queue=source, consumer_tag="c")
    for _ in range(2 * STOP):
        client.publish(1, b"x", routing_key=target)
    commanded.node.settle(1)
    return client


def jam(commanded: Commanded, **arguments: Any) -> list[Client]:
    """Return two clients that wait for each other, for longer than anybody waits for a consumer."""
    for name in ("a", "b"):
        commanded.node.declare(name, durable=True, **MARKS, **arguments)
    clients = [worker(commanded, "a", "b"), worker(commanded, "b", "a")]
    pass_time(commanded, 60)
    return clients


def search(commanded: Commanded, search: DeadlockSearch, times: Times = AT_ONCE, rings: Times = NEVER) -> None:
    search.search(times, rings, NOW)
    commanded.node.settle(1)


def search_of(commanded: Commanded) -> DeadlockSearch:
    @contextmanager
    def connect() -> Iterator[Asking]:
        processes = Processes(commanded.data)
        with processes.gauges:
            yield processes

    return DeadlockSearch(commanded.node.gauges, PATIENCE, connect)


def deadlocks(commanded: Commanded) -> list[str]:
    return [line["action"] for line in commanded.node.logs if line["event"] == "deadlock"]


def lent(commanded: Commanded) -> dict[str, int]:
    """Return how many messages each queue has lent."""
    rows = {name: commanded.node.gauges.queue_read(commanded.node.queue(name).slot) for name in ("a", "b")}
    return {name: row.lent_count for name, row in rows.items() if row is not None and row.lent_count}


def test_processes_are_asked_only_while_a_producer_is_held_and_not_at_each_check(commanded: Commanded) -> None:
    asked: list[float] = []

    @contextmanager
    def connect() -> Iterator[Asking]:
        asked.append(now)
        raise CommandError("shard 0 does not answer")
        yield

    made = DeadlockSearch(commanded.node.gauges, PATIENCE, connect)
    for now in (1.0, 2.0):
        made.check(now)
    assert asked == []
    jam(commanded)
    for now in (100.0, 100.1, 200.0):
        made.check(now)
    assert asked == [100.0, 200.0], "a process that does not answer is asked at the next search"


def test_one_queue_of_a_circle_lends_and_that_is_logged(commanded: Commanded) -> None:
    jam(commanded)
    search(commanded, search_of(commanded))
    assert deadlocks(commanded) == ["credit"]
    assert len(lent(commanded)) == 1


def test_the_circle_goes_on_with_what_is_lent(commanded: Commanded) -> None:
    """Each client acks its messages once none of its publishes is parked."""
    clients = jam(commanded)
    made, rounds = search_of(commanded), 0
    while any(client.connection.kept.parked for client in clients) and rounds < 20:
        search(commanded, made)
        for client in clients:
            if not client.connection.kept.parked:
                client.send("basic.ack", 1, delivery_tag=0, multiple=True)
        commanded.node.settle(1)
        pass_time(commanded, 60)
        rounds += 1
    assert [client.connection.kept.parked for client in clients] == [0, 0]


def test_clients_that_are_not_stuck_yet_are_left_alone(commanded: Commanded) -> None:
    jam(commanded)
    search(commanded, search_of(commanded), NEVER)
    assert deadlocks(commanded) == [] and lent(commanded) == {}


def test_a_ring_has_one_queue_lend_early_and_no_second_one(commanded: Commanded) -> None:
    jam(commanded)
    made = search_of(commanded)
    made.search_rings(AT_ONCE, NOW)
    commanded.node.settle(1)
    assert deadlocks(commanded) == ["credit"] and len(lent(commanded)) == 1


def test_what_is_only_reported_is_logged_once(commanded: Commanded) -> None:
    commanded.node.policy("p", ".*", {"deadlock": "report"})
    jam(commanded)
    made = search_of(commanded)
    for _ in range(2):
        search(commanded, made)
    assert deadlocks(commanded) == ["report"] and lent(commanded) == {}


def test_a_consumer_that_has_nothing_and_can_get_nothing_keeps_no_circle_from_being_found(commanded: Commanded) -> None:
    jam(commanded)
    idle = open_channel(commanded.node)
    for queue in ("a", "b"):
        idle.call("basic.consume", 1, queue=queue, consumer_tag=queue)
    search(commanded, search_of(commanded))
    assert deadlocks(commanded) == ["credit"]


def test_where_a_policy_says_so_one_of_the_clients_has_its_publishes_refused(commanded: Commanded) -> None:
    commanded.node.policy("p", ".*", {"deadlock": "nack"})
    for name in ("a", "b"):
        commanded.node.declare(name, durable=True, **MARKS)
    clients = [confirming(commanded, target) for target in ("b", "a")]
    for client, source in zip(clients, ("a", "b"), strict=True):
        client.call("basic.consume", 1, queue=source, consumer_tag="c")
    pass_time(commanded, 60)
    made = search_of(commanded)
    for _ in range(3):  # the refused client takes its time to acknowledge
        search(commanded, made)
        assert sorted("basic.nack" in client.names(1) for client in clients) == [False, True]
    pass_time(commanded, int(PATIENCE))
    search(commanded, made)
    assert all("basic.nack" in client.names(1) for client in clients)
    assert set(deadlocks(commanded)) == {"nack"} and lent(commanded) == {}


def test_of_those_who_wait_for_a_queue_it_is_the_one_that_was_held_last(commanded: Commanded) -> None:
    queue = commanded.node.declare("a", durable=True, **MARKS)
    commanded.node.declare("b", durable=True, **MARKS)
    clients = []
    for target in ("a", "a", "b"):
        clients.append(confirming(commanded, target))
        pass_time(commanded, 10)
    processes = Processes(commanded.data)
    assert _refuse_youngest(processes, {"id": queue.queue_id}, processes.ask_acceptors("held"), PATIENCE)
    commanded.node.settle(1)
    assert ["basic.nack" in client.names(1) for client in clients] == [False, True, False]


@pytest.mark.parametrize("rung", [None, {"name": "reject", "seconds": PATIENCE}, {"name": "park", "seconds": 1}])
def test_who_has_parked_nothing_has_nothing_to_be_refused(commanded: Commanded, rung: Any) -> None:
    """The client stopped before, or was refused long ago and has not gone on for that."""
    processes = Processes(commanded.data)
    facts = {"connection": "0.1.1", "channel": 1, "held_seconds": 1, "parked_bytes": 0, "rung": rung}
    stopped = {**facts, "causes": [{"id": 7}]}
    assert not _refuse_youngest(processes, {"id": 7}, [stopped], PATIENCE)


def confirming(commanded: Commanded, target: str) -> Client:
    """Return a client with confirms that has filled a queue, or found it full."""
    client = open_channel(commanded.node)
    client.call("confirm.select", 1)
    for _ in range(2 * STOP):
        client.publish(1, b"x", routing_key=target)
    commanded.node.settle(1)
    return client


def checks(commanded: Commanded) -> tuple[Callable[[Moved], QueueCheck], dict[str, Any]]:
    """Return what makes checks of the queues that channels wait for now, and the causes of these waits, by queue."""
    processes = Processes(commanded.data)
    channels = processes.ask_acceptors("entangled")
    causes = {cause["name"]: cause for each in channels for cause in each["causes"]}
    return partial(QueueCheck, processes, commanded.node.gauges, channels), causes


def test_a_queue_whose_messages_were_acked_since_the_last_check_has_no_stuck_consumers(commanded: Commanded) -> None:
    one, _ = jam(commanded)
    check, causes = checks(commanded)
    first = check({})
    ((consumer,), _) = [first.consumers(causes[name]) for name in ("a", "b")]
    assert (consumer["connection"], consumer["party"]) == (one.connection.id, "guest at 127.0.0.1")
    again = check(first.moved)
    assert again.consumers(causes["a"]) == [consumer]
    one.send("basic.ack", 1, delivery_tag=1)
    commanded.node.settle()
    after = check(first.moved)
    assert after.consumers(causes["a"]) == [] and len(after.consumers(causes["b"])) == 1


def test_a_queue_is_still_if_it_has_nothing_ready_and_nothing_has_moved(commanded: Commanded) -> None:
    one, _ = jam(commanded)
    check, causes = checks(commanded)
    first = check({})
    assert not first.is_still(causes["a"]), "there was no check before"
    assert check(first.moved).is_still(causes["a"])
    one.send("basic.ack", 1, delivery_tag=1)
    commanded.node.settle()
    assert not check(first.moved).is_still(causes["a"])


def test_a_queue_that_has_acted_is_asked_first_so_that_it_does_more(commanded: Commanded) -> None:
    made = search_of(commanded)
    circle = Circle(("x", "y", "z"), tuple({"id": id} for id in (3, 4, 5)))
    made._record_action({"id": 4}, NOW)
    assert [queue["id"] for queue in made._acted_first(circle)] == [4, 3, 5]


@pytest.mark.parametrize(("connection", "acceptor"), [("0.1.17", 0), ("12.3.4", 12)])
def test_a_connection_s_id_begins_with_its_acceptor(connection: str, acceptor: int) -> None:
    assert acceptor_of(connection) == acceptor
