from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

import pytest

from load.options import LoadOptions
from load.session import Session
from load.target import Target
from load.topology import Topology, topology_of
from tests.load.test_options import parsed
from tests.waiting import wait_for


def options(**changed: object) -> LoadOptions:
    return replace(LoadOptions.of(Namespace(**vars(parsed()))), **changed)  # type: ignore[arg-type]


def test_names_begin_with_that_of_the_queue() -> None:
    answer = options(queue="mine", subscribers=2)
    assert topology_of("queue", answer) == Topology(("mine",))
    assert topology_of("requests", answer) == Topology(("mine.requests",))
    assert topology_of("tasks", answer) == Topology(("mine.tasks",))
    assert topology_of("subscribers", answer) == Topology(("mine.subscriber.0", "mine.subscriber.1"), "mine.fanout")


def test_routing_keys() -> None:
    assert (Topology(("q",)).routing_key, Topology(("q",)).name) == ("q", "q")
    assert (Topology(("q", "r"), "e").routing_key, Topology(("q", "r"), "e").name) == ("", "e")


@pytest.mark.broker
def test_each_queue_gets_a_copy(url: str, queue: str) -> None:
    topology = topology_of("subscribers", options(queue=queue, subscribers=3))
    session = Session(Target.parse(url), "test")
    try:
        for _ in range(2):  # users declare what is there already
            topology.declare(session, {})
        session.publish(topology.routing_key, [b"x"] * 4, exchange=topology.exchange)
        wait_for(lambda: [session.depth(each) for each in topology.queues] == [4, 4, 4])
        topology.purge(session)
        assert [session.depth(each) for each in topology.queues] == [0, 0, 0]
        topology.delete(session)
    finally:
        session.close()
