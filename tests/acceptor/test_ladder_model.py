"""The ladder in any order of events: no rung is skipped, free channels climb none, each way out gives every confirm."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from acceptor.amqp.channel import Channel
from acceptor.amqp.connection import Connection
from acceptor.clients.channel_stage import OPEN
from acceptor.holding.escalation import Climb
from penstock.limits.ladder import CLOSE_CHANNEL, Ladder
from tests.frames import Event
from tests.simulator.joined.books import BookedNode
from tests.simulator.joined.client import Client

pytestmark = pytest.mark.long

MARKS = {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2}
LADDERS = (
    "forever", "reject", "close-channel", "withhold 1 s, park 1 s, pause 1 s, reject",
    "park 1 s, reject 1 s, close-channel 5 s, close-connection", "pause 2 s, close-channel",
    "park 1 s, close-connection",
)  # fmt: skip
CLIENTS = 2


class Producer:
    """A client with one channel after another: the publishes read on the present one, and the confirms received."""

    def __init__(self, node: BookedNode, number: int) -> None:
        self.node = node
        self.number = number
        self.connect()

    def connect(self) -> None:
        self.client: Client = self.node.connect()
        self.client.on_event = self.receive
        self.open()

    def open(self) -> None:
        self.closed = ""
        self.sent: list[bytes] = []
        self.confirmed: dict[int, bool] = {}
        self.client.call("channel.open", 1)
        self.client.call("confirm.select", 1)

    @property
    def channel(self) -> Channel:
        return self.client.connection.channels[1]

    def publish(self, body: bytes) -> None:
        """Publish a message; once the channel is closed, it does not count when read."""
        channels, sent = self.client.connection.channels, self.sent

        def read() -> None:
            if 1 in channels and channels[1].stage is OPEN:
                sent.append(body)

        self.client.publish(1, body, routing_key="q", when_read=read)

    def receive(self, event: Event) -> bool:
        if event.name in ("basic.ack", "basic.nack"):
            tags = range(1, event.delivery_tag + 1) if event.multiple else [event.delivery_tag]
            new = [tag for tag in tags if tag not in self.confirmed]
            assert new, "confirmed twice"
            assert not self.closed
            self.confirmed |= dict.fromkeys(new, event.name == "basic.ack")
        elif event.name in ("channel.close", "connection.close"):
            self.closed = event.name
        return False


class Climbing(RuleBasedStateMachine):
    @initialize(hold=st.sampled_from(LADDERS))
    def start(self, hold: str) -> None:
        self.node = BookedNode(flow={"parking_bytes": 1024})
        self.node.declare("q", **MARKS)
        self.last = 0
        self.entered: set[bytes] = set()
        self.producers = [Producer(self.node, number) for number in range(CLIENTS)]
        self.consumer = self.node.connect()
        self.consumer.call("channel.open", 1)
        self.change_policy(hold)

    def teardown(self) -> None:
        if not hasattr(self, "node"):
            return
        try:
            self.everything_ends()
        finally:
            self.node.__exit__()

    @rule(hold=st.sampled_from(LADDERS))
    def change_policy(self, hold: str) -> None:
        self.node.policy("p", "^q$", {"hold": hold})
        self.node.settle()

    @rule(who=st.integers(0, CLIENTS - 1), count=st.integers(1, 12), size=st.sampled_from([0, 400]))
    def publish(self, who: int, count: int, size: int) -> None:
        producer = self.producers[who]
        for _ in range(count):
            self.last += 1
            body = b"%d " % self.last + bytes(size)
            producer.publish(body)
        self.node.settle()
        self.come_back()

    @rule(count=st.integers(1, 8))
    def take(self, count: int) -> None:
        for _ in range(count):
            self.consumer.send("basic.get", 1, queue="q", no_ack=True)
        self.node.settle()
        while self.consumer.events[1]:
            event = self.consumer.events[1].popleft()
            if event.name == "basic.get-ok":
                assert event.body not in self.entered
                self.entered.add(event.body)

    @rule(seconds=st.sampled_from([0.1, 1.1, 10.0]))
    def time_passes(self, seconds: float) -> None:
        """Let time pass before one recheck: each channel climbs at most one rung, or passes `close-channel` as well."""
        node, core = self.node, self.node.core(0)
        node.now += seconds
        full = core.gates.queue_gates[node.queue("q").queue_id].is_saturated()
        escalations = core.holding.escalations
        before = {channel: (climb, climb.at, climb.ladder) for channel, climb in escalations.climbs.items()}
        closed_at = {channel: dict(escalations.closed_at.get(channel.connection, {})) for channel in before}
        counts = dict(escalations.counts)
        node.recheck(0)
        for channel, (climb, at, ladder) in before.items():
            self.check_step(climb, at, ladder, bool(closed_at[channel]), full)
        if not full:
            assert core.holding.escalations.counts == counts or self.began(before)
        node.settle()
        self.come_back()

    def began(self, before: dict[Channel, Any]) -> bool:
        return any(channel not in before for channel in self.node.core(0).holding.escalations.climbs)

    def check_step(self, climb: Climb, at: int, ladder: Ladder, closed_before: bool, full: bool) -> None:
        assert climb.ladder == ladder
        if not full:
            assert climb.at <= at
            return
        if climb.at == at + 2:  # its connection has had a channel closed already
            assert closed_before and ladder.rungs[at + 1].name == CLOSE_CHANNEL
        else:
            assert climb.at in (at, at + 1)

    def come_back(self) -> None:
        """Check that each closed producer got all its confirms first, and have it begin anew."""
        for producer in self.producers:
            if not producer.closed:
                continue
            assert producer.confirmed.keys() == set(range(1, len(producer.sent) + 1))
            self.check_confirms(producer)
            if producer.closed == "channel.close":
                producer.client.send("channel.close-ok", 1)
                producer.open()
            else:
                producer.client.send("connection.close-ok")
                self.node.settle()
                producer.client.lose()
                producer.connect()

    def check_confirms(self, producer: Producer) -> None:
        """Check that nacked messages never entered the queue, and acked ones did."""
        there = self.entered | self.bodies()
        for tag, acked in producer.confirmed.items():
            assert (producer.sent[tag - 1] in there) == acked

    def bodies(self) -> set[bytes]:
        """Return the bodies of all messages that ever entered the queue."""
        shard = self.node.shards[0]
        assert shard is not None
        return set(shard.entered(self.node.queue("q").queue_id))

    @invariant()
    def who_climbs_is_held(self) -> None:
        if not hasattr(self, "node"):
            return
        core = self.node.core(0)
        for channel, climb in core.holding.escalations.climbs.items():
            assert channel in core.holding.holds.held and channel.held_by is not None
            assert 0 <= climb.at < len(climb.ladder.rungs) or climb.at == -1
        for channel in [producer.channel for producer in self.producers]:
            if channel.refusing is not None:
                assert channel in core.holding.escalations.climbs
            if channel.held_by is None:
                assert not channel.inbox or not any(gate.is_saturated() for gate in channel.gates)
            connection: Connection = channel.connection
            assert connection.reads == (connection not in core.holding.drip.paused)

    def everything_ends(self) -> None:
        """Empty the queue: every channel is free, and every publish is acked or nacked."""
        self.change_policy("forever")
        for _ in range(200):
            self.take(8)
            self.node.settle(1)
            if not any(producer.channel.inbox or producer.channel.held_by for producer in self.producers):
                break
        assert not self.node.core(0).holding.escalations.climbs
        self.take(8)
        self.node.settle(2)
        for producer in self.producers:
            assert producer.confirmed.keys() == set(range(1, len(producer.sent) + 1))
            self.check_confirms(producer)


TestClimbing = Climbing.TestCase
TestClimbing.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
