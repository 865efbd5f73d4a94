"""The search for deadlocks: what it asks a node in memory, and what it has the queues of a circle do.

The watch's own thread and times: tests/broker/test_deadlocks.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from ops.administration.processes import Processes
from ops.deadlocks import DeadlockWatch, QueueCheck, acceptor_of
from ops.flow.circles import Times
from tests.joined import Client, open_channel
from tests.ops.commanded import Commanded
from tests.ops.flow.full import MARKS, STOP, pass_time

AT_ONCE = Times(0.0, 0.0)
NEVER = Times(1e9, 1e9)


def worker(commanded: Commanded, source: str, target: str) -> Client:
    """Return a client that holds what it has of one queue unacked and has filled the other one."""
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


def search(commanded: Commanded, watch: DeadlockWatch, times: Times = AT_ONCE, rings: Times = NEVER) -> None:
    watch._search(commanded.node.gauges, times, rings)
    commanded.node.settle(1)


def watch_of(commanded: Commanded) -> DeadlockWatch:
    return DeadlockWatch(commanded.node.settings, commanded.data / "gauges")


def deadlocks(commanded: Commanded) -> list[str]:
    return [line["action"] for line in commanded.node.logs if line["event"] == "deadlock"]


def lent(commanded: Commanded) -> dict[str, int]:
    """Return how many messages each queue has lent."""
    rows = {name: commanded.node.gauges.queue_read(commanded.node.queue(name).slot) for name in ("a", "b")}
    return {name: row.lent_count for name, row in rows.items() if row is not None and row.lent_count}


def test_one_queue_of_a_circle_lends_and_that_is_logged(commanded: Commanded) -> None:
    jam(commanded)
    search(commanded, watch_of(commanded))
    assert deadlocks(commanded) == ["credit"]
    assert len(lent(commanded)) == 1


def test_a_queue_that_has_acted_is_the_first_to_do_more(commanded: Commanded) -> None:
    watch = watch_of(commanded)
    queues = tuple({"id": id} for id in (3, 4, 5))
    watch._record_action({"id": 4})

    class Found:
        def __init__(self) -> None:
            self.queues = queues

    assert [queue["id"] for queue in watch._acted_first(Found())] == [4, 3, 5]  # type: ignore[arg-type]
