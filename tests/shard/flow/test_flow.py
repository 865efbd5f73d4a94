"""The flow decision: gauges, records and broadcasts when a queue stops and resumes; unprivileged queues, which hold no
producer; and lent room.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.batch.batch_cy import Batch, BatchBuilder
from penstock.flow.flow_events import INCIDENT_SECONDS
from shard.flow.flow import Flow
from shard.queue.queue_state import QueueState
from tests.shard.steps import drain, get, publish, recount
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

MIB = 1 << 20
BODY = bytes(1000)
STOP, RESUME = 20, 10
MARKS: dict[str, Any] = {"qpid.flow_stop_count": STOP, "qpid.flow_resume_count": RESUME}


def messages(count: int, size: int = 0) -> Batch:
    builder = BatchBuilder()
    for _ in range(count):
        builder.add(b"\0\1q", bytes(14), bytes(size), 0)
    return builder.finish()


class Decided:
    """A queue of a node without clients, and the flow decisions about it; `reported` are the broadcasts."""

    def __init__(self, node: Node, **arguments: Any) -> None:
        node.declare("q", **arguments)
        node.settle()
        core = node.shard(0)
        self.node = node
        self.queue: QueueState = node.state("q")
        self.reported: list[tuple[bool, int]] = []
        self.flow = Flow(node.gauges, 0, core.events, node.settings.flow, self.broadcast, lambda id: None)
        self.flow.begin(self.queue, node.microseconds())

    def broadcast(self, id: int, saturated: bool, epoch: int) -> None:
        gauge = self.node.gauges.queue_read(self.queue.slot)
        assert id == self.queue.id and gauge is not None
        assert (gauge.saturated, gauge.flow_epoch) == (saturated, epoch), "the gauge is written before"
        self.reported.append((saturated, epoch))

    def enqueue(self, count: int, size: int = 0) -> None:
        self.queue.enqueue(messages(count, size), 0, count, self.node.microseconds())
        self.flow.decide(self.queue, self.node.microseconds())

    def drop_to(self, count: int) -> None:
        self.queue.contents.drop_head(count, 1 << 62)
        self.flow.decide(self.queue, self.node.microseconds())

    def stop_for(self, seconds: float, count: int = STOP + 6) -> None:
        """Keep the queue stopped for `seconds`."""
        self.enqueue(count)
        self.node.now += seconds
        self.drop_to(0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=30))
def test_every_decision_is_in_the_gauge_before_it_is_announced_once(steps: list[tuple[bool, int]]) -> None:
    with Node() as node:
        decided = Decided(node, **MARKS)
        saturated, epoch = False, decided.queue.saturation.epoch
        changes = []
        for arrives, count in steps:
            if arrives:
                decided.enqueue(count)
            else:
                decided.drop_to(count)
            depth = decided.queue.depth
            was, saturated = saturated, depth > STOP or (saturated and depth > RESUME)
            if saturated != was:
                epoch += 1
                changes.append((saturated, epoch))
            assert decided.reported == changes
            assert decided.flow.stopped == ({decided.queue.id: decided.queue} if saturated else {})
            gauge = node.gauges.queue_read(decided.queue.slot)
            assert gauge is not None
            assert (gauge.ready, gauge.saturated, gauge.flow_epoch) == (depth, saturated, epoch)


def test_a_stop_that_is_over_is_an_incident_with_its_cause_and_peaks() -> None:
    with Node() as node:
        decided = Decided(node, **MARKS)
        began = node.now
        decided.stop_for(INCIDENT_SECONDS)
        (incident,) = decided.flow.incidents
        assert incident == {
            "kind": "queue", "vhost": "/", "queue": "q", "cause": "26 of 20 messages", "begun": began,
            "ended": node.now, "peak_count": 26, "peak_bytes": 26 * (3 + 14 + 64), "overshoot_count": 6,
            "overshoot_bytes": 0, "epoch": decided.queue.saturation.epoch, "since_us": int(began * 1e6),
        }  # fmt: skip
        assert not decided.flow.short_stops.sums


def test_short_stops_are_summed_up() -> None:
    with Node() as node:
        decided = Decided(node, **MARKS)
        for count in (STOP + 1, STOP + 9, STOP + 2):
            decided.stop_for(INCIDENT_SECONDS / 2, count)
        assert not decided.flow.incidents
        (record,) = decided.flow.short_stops.take_all()
        assert (record["queue"], record["stops"], record["peak_count"]) == ("q", 3, STOP + 9)


def test_the_cause_of_a_stop_names_each_mark_that_was_exceeded() -> None:
    with Node() as node:
        decided = Decided(node, **MARKS, **{"qpid.flow_stop_size": 50_000, "qpid.flow_resume_size": 1000})
        for size in (1000, 3000):
            decided.enqueue(17, size)
            decided.enqueue(5, size)
            node.now += INCIDENT_SECONDS
            decided.drop_to(0)
        both, bytes_too = (each["cause"] for each in decided.flow.incidents)
        assert both == "22 of 20 messages"
        assert bytes_too == f"22 of 20 messages; {22 * (3 + 14 + 64 + 3000)} of 50000 bytes"


def test_a_deadlock_is_an_incident_at_once() -> None:
    with Node() as node:
        decided = Decided(node, **MARKS)
        decided.enqueue(STOP + 1)
        began = node.now
        node.now += 5
        decided.flow.deadlocked(decided.queue, "q > q", "report", node.microseconds())
        (incident,) = decided.flow.incidents
        assert (incident["kind"], incident["cause"], incident["actions"]) == ("deadlock", "q > q", {"report": 1})
        assert (incident["begun"], incident["ended"]) == (began, node.now)
        assert decided.queue.id in decided.flow.stopped, "it is stopped still"


def test_open_stops_are_those_that_have_lasted() -> None:
    with Node() as node:
        decided = Decided(node, **MARKS)
        decided.enqueue(STOP + 3)
        since = node.microseconds()
        node.now += 5
        (stop,) = decided.flow.open_stops(node.microseconds(), 5)
        assert stop == {
            "queue_id": decided.queue.id, "vhost": "/", "queue": "q", "since": since, "peak_count": STOP + 3,
            "peak_bytes": decided.queue.depth_bytes,
        }  # fmt: skip
        assert decided.flow.open_stops(node.microseconds(), 5.1) == []


# Unprivileged queues


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(stores=True, flow={"unprivileged_limit": MIB}) as node:
        node.policy("base", "", {"max-length": 100}, "node", vhost="")
        yield node


def subscribe(node: Node, **arguments: Any) -> tuple[Client, str]:
    """Return the owner and the name of an exclusive queue bound to the fanout exchange."""
    owner = open_channel(node)
    queue = owner.call("queue.declare", 1, queue="own", exclusive=True, arguments=arguments).queue
    owner.call("queue.bind", 1, queue=queue, exchange="amq.fanout", routing_key="")
    return owner, queue


def logged(node: Node, words: str) -> list[dict[str, Any]]:
    return [each for each in node.logs if each["event"] == words]


def test_an_exclusive_queue_spills_instead_of_stopping_its_producers(node: Node) -> None:
    owner, queue = subscribe(node, **MARKS)
    publisher = open_channel(node)
    publisher.call("confirm.select", 1)
    bodies = [b"%d" % number + BODY for number in range(900)]
    for at in range(0, len(bodies), 10):
        publish(publisher, "", *bodies[at : at + 10], exchange="amq.fanout")
    assert node.state(queue).depth == 900
    assert node.state(queue).contents.paged > 400_000
    assert publisher.connection.channels[1].held_by is None
    assert publisher.events[1][-1].delivery_tag == 900, "confirms are not withheld"
    (line,) = logged(node, "unprivileged queue spills")
    assert (line["queue"], line["why"], line["connection"]) == (queue, "exclusive queue", owner.connection.id)
    assert drain(owner, queue) == bodies
    recount(node, queue)


def test_at_its_limit_an_unprivileged_queue_loses_its_oldest(node: Node) -> None:
    owner, queue = subscribe(node, **MARKS)
    publisher = open_channel(node)
    count = 3 * MIB // len(BODY)
    for number in range(count):
        publish(publisher, "", b"%d" % number + BODY, exchange="amq.fanout")
        state = node.state(queue)
        assert state.depth_bytes <= MIB
    assert len(logged(node, "unprivileged queue drops its oldest messages")) == 1
    recount(node, queue)
    left = [int(body[: -len(BODY)]) for body in drain(owner, queue)]
    assert left == list(range(count - len(left), count)) and len(left) > 900


def test_small_messages_count_as_well(node: Node) -> None:
    _, queue = subscribe(node, **MARKS)
    publisher = open_channel(node)
    for _ in range(20):
        publish(publisher, "", *[b""] * 1000, exchange="amq.fanout")
    assert 64 * node.state(queue).depth <= MIB < 20_000 * 64


def test_without_marks_it_is_limited_all_the_same(node: Node) -> None:
    _, queue = subscribe(node, **{"x-flow": "off"})
    publisher = open_channel(node)
    for _ in range(30):
        publish(publisher, "", *[BODY] * 100, exchange="amq.fanout")
    assert node.state(queue).depth_bytes < MIB


def test_a_policy_lets_it_stop_producers(node: Node) -> None:
    """Removing the policy releases the held producer."""
    _, queue = subscribe(node, **MARKS)
    publisher = open_channel(node)
    node.policy("trusted", "^own$", {"overflow": "flow"})
    for _ in range(10):
        publish(publisher, "", *[BODY] * 10, exchange="amq.fanout")
    assert 20 <= node.state(queue).depth < 40
    assert publisher.connection.channels[1].held_by is not None
    node.policy("trusted", "^own$", None)
    node.settle()
    assert node.state(queue).depth == 100
    assert publisher.connection.channels[1].held_by is None


def test_a_queue_nobody_consumed_from_stops_producers_once_somebody_does(node: Node) -> None:
    """The queue has the limit of the node, since nobody chose one."""
    node.declare("q")
    publisher = open_channel(node)
    for _ in range(20):
        publish(publisher, "q", *[BODY] * 10)
    assert node.state("q").depth == 200
    assert get(publisher, "q", no_ack=False)
    publish(publisher, "q", *[b"held"] * 10)
    assert node.state("q").depth <= 201
    assert publisher.connection.channels[1].held_by is not None


def test_durable_and_named_queues_stop_producers(node: Node) -> None:
    node.declare("q", durable=True)
    publisher = open_channel(node)
    publish(publisher, "q", *[BODY] * 100)
    publish(publisher, "q", *[BODY] * 100)
    assert node.state("q").depth < 100


def test_events_for_the_owner(node: Node) -> None:
    owner, queue = subscribe(node, **MARKS)
    owner.call("queue.declare", 1, queue="events", exclusive=True)
    owner.call("queue.bind", 1, queue="events", exchange="amq.flow", routing_key="#")
    publisher = open_channel(node)
    for _ in range(20):
        publish(publisher, "", *[BODY] * 100, exchange="amq.fanout")
    keys = []
    while (event := get(owner, "events")) is not None:
        keys.append(event.routing_key)
        assert event.properties["headers"]["why"] == "exclusive queue"
    assert keys == [f"spills./.{queue}", f"drops./.{queue}"]


# Lent room


def is_lent_on(node: Node, lent: tuple[int, int]) -> bool:
    """Return whether the queue, beyond its stop mark, holds no producer, and the gauges show this loan."""
    state, gauge = node.state("q").saturation, node.gauges.queue_read(node.queue("q").slot)
    assert gauge is not None and node.state("q").depth > STOP
    return state.lent_beyond() == (gauge.lent_count, gauge.lent_bytes) == lent and not state.saturated


def test_what_is_lent_outlives_the_shard_and_moves_with_the_queue() -> None:
    with Node(1, 2, stores=True) as node:
        node.declare("q", durable=True, **MARKS)
        home = node.queue("q").shard
        producer, consumer = open_channel(node), open_channel(node)
        publish(producer, "q", *[b"m"] * (STOP + 1), delivery_mode=2)
        queue = node.state("q")
        assert queue.saturation.saturated
        assert node.shard(home).flow.lend(queue, node.microseconds())
        node.shard(home).state.touch(queue)
        publish(producer, "q", b"m", delivery_mode=2)
        lent = queue.saturation.lent_beyond()
        assert lent[0] > 1 and is_lent_on(node, lent)
        for _ in range(2):
            node.kill_shard(home)
            node.start_shard(home)
            node.settle()
            publish(producer, "q", b"m", delivery_mode=2)
            assert is_lent_on(node, lent)
            home = 1 - home
            node.move("q", home)
            node.settle(2)
            assert node.queue("q").shard == home
            assert is_lent_on(node, lent)
        publish(producer, "q", *[b"m"] * (STOP + lent[0]), delivery_mode=2)
        assert node.state("q").saturation.saturated
        while node.state("q").depth > RESUME + lent[0]:
            assert get(consumer, "q")
        node.settle(1)
        assert not node.state("q").saturation.saturated
