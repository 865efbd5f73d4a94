"""What clients, acceptors and shards do to each other, as rules; what must hold whatever the order, as invariants.

Clients publish to queues with limits of every kind, alone and several at once, consume, settle, get, leave and come
back; every turn, broadcast, answer and change of the topology is taken on when a rule says so. Each message carries
who published it and its number, so that every one of them can be accounted for.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from acceptor.core import AcceptorCore
from acceptor.inlet import Inlet
from shard.room import MEMORY
from tests.flow.served import nobody_starves, within_limits
from tests.frames import Event
from tests.joined import Client, Node, parked
from tests.raw import JAVA

SIZES = (0, 100, 9000, 20000)
LARGEST = max(SIZES) + 32
COUNT = {"qpid.flow_stop_count": 8, "qpid.flow_resume_count": 4}
BYTES = {"qpid.flow_stop_size": 60_000, "qpid.flow_resume_size": 20_000}
BOTH = {
    "qpid.flow_stop_count": 40, "qpid.flow_resume_count": 0, "qpid.flow_stop_size": 90_000,
    "qpid.flow_resume_size": 60_000,
}  # fmt: skip
RING = {"x-max-length": 5}
REFUSE = {"x-max-length": 6, "x-overflow": "reject-publish"}
# What queues there are: their arguments and their shard (of two).
KINDS: dict[str, tuple[dict[str, Any], int]] = {
    "count": (COUNT, 0), "bytes": (BYTES, 1), "both": (BOTH, 1), "free": ({}, 0), "ring": (RING, 1),
    "refuse": (REFUSE, 0),
}  # fmt: skip
# What a policy may make of them: marks where there were none, others, none at all, or another overflow.
POLICIES: tuple[dict[str, Any] | None, ...] = (
    None, {"flow-stop-count": 3}, {"flow-stop-count": 100, "flow-stop-size": 30_000}, {"flow-resume-count": 0},
    {"max-length": 4, "overflow": "reject-publish"}, {"max-length": 10, "overflow": "flow"}, {"max-length": 3},
)  # fmt: skip
# Fanout exchanges, and the kinds of queues that are bound to them.
EXCHANGES = {"some": ("count", "bytes", "free"), "marked": ("both", "count"), "all": tuple(KINDS)}
CLIENTS = 4
# What may go a step on; a turn of a shard with its broadcasts, or without.
MOVES = (
    *("read", "read", "part", "finish", "finish", "decide", "decide", "up", "up", "change", "reply"),
    *("keep", "keep", "keep", "lost", "late", "again", "meet", "mourn"),
)

Id = tuple[int, int, int]
"""A message: number of the client, of the channel, and of the publish."""


@dataclass
class Kept:
    """A queue as the model has it; `born` and `gone` are in the numbering of publishes."""

    name: str
    kind: str
    id: int
    born: int
    gone: bool = False


@dataclass
class Session:
    """A channel as its client has it. `open` are deliveries by tag, as (queue, message), until their ack was read."""

    client: Person
    number: int
    confirms: bool
    published: int = 0
    told: dict[int, bool] = field(default_factory=dict)
    tags: dict[int, Id] = field(default_factory=dict)
    next_tag: int = 1
    open: dict[int, tuple[str, Id]] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    gets: list[str] = field(default_factory=list)
    consumers: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    last: dict[tuple[str, int, int], int] = field(default_factory=dict)
    flows: bool = True
    closing: bool = False
    recovering: bool = False


@dataclass
class Person:
    """One client, over all of its channels."""

    number: int
    client: Client
    sessions: dict[int, Session] = field(default_factory=dict)
    blocked: bool = False
    next_channel: int = 1


class Flow(RuleBasedStateMachine):
    """The rules that need nobody to die. `losses` are those who died: then less is certain."""

    losses = 0
    stores = False
    # What was delivered and needed no ack. If a shard dies before it has written that, it may come again, unmarked.
    unacked_for_ever: AbstractSet[tuple[str, Id]] = frozenset()

    @initialize(
        acceptors=st.integers(1, 2), shards=st.integers(1, 2), memory=st.sampled_from([1 << 30, 1 << 30, 400_000])
    )
    def start(self, acceptors: int, shards: int, memory: int) -> None:
        flow = {"parking_bytes": 30_000, "pair_count": 64, "pair_bytes": 65536, "consumer_window_bytes": 65536}
        self.node = Node(acceptors, shards, flow, self.stores, memory_limit=memory)
        self.sent = 0
        self.sent_at: dict[Id, int] = {}
        self.bound_for: dict[Id, str] = {}
        self.arrived: list[Id] = []
        self.seen: dict[tuple[str, Id], int] = defaultdict(int)
        self.returned: dict[tuple[str, Id], int] = defaultdict(int)
        # What may come as if it never had, in an order of its own: a shard died before it had written it down.
        self.afresh: set[tuple[str, Id]] = set()
        # Queues from which a client took without acknowledgement before it left.
        self.leaky: set[str] = set()
        # Queues that a policy has changed: depth and octets when that had arrived everywhere, None before.
        self.changed: dict[str, tuple[int, int] | None] = {}
        self.people: list[Person] = []
        self.homes: dict[int, int] = {}
        self.last_client = 0
        self.last_tag = 0
        self.queues: dict[str, Kept] = {}
        for kind in KINDS:
            self.declare(kind)
        for _ in range(CLIENTS):
            self.people.append(self.arrive())

    def teardown(self) -> None:
        if not hasattr(self, "node"):
            return
        try:
            if sys.exc_info()[0] is None:
                self.everything_ends()
        finally:
            self.node.__exit__()

    def declare(self, kind: str) -> None:
        """Make the queue of a kind, under a name that was never used."""
        name = f"{kind}-{len(self.queues)}"
        arguments, shard = KINDS[kind]
        record = self.node.declare(name, min(shard, len(self.node.shards) - 1), self.stores, **arguments)
        for exchange, kinds in EXCHANGES.items():
            if kind in kinds:
                self.node.bind(exchange, name)
        self.queues[name] = Kept(name, kind, record.queue_id, self.sent)

    def living(self) -> dict[str, Kept]:
        return {kept.kind: kept for kept in self.queues.values() if not kept.gone}

    def arrive(self) -> Person:
        """A client with a channel that has confirms and one that has none."""
        self.last_client += 1
        running = [index for index, _ in self.node.running_acceptors()]
        acceptor = running[self.last_client % len(running)]
        client = self.node.connect(acceptor, JAVA if self.last_client % 2 else {})
        person = Person(self.last_client, client)
        self.homes[person.number] = acceptor
        client.on_event = lambda event: self.hear(person, event)
        for confirms in (True, False):
            self.open(person, confirms)
        return person

    def open(self, person: Person, confirms: bool) -> None:
        number = person.next_channel
        person.next_channel += 1
        person.sessions[number] = Session(person, number, confirms)
        person.client.send("channel.open", number)
        if confirms:
            person.client.send("confirm.select", number)

    def session(self, which: int) -> Session:
        sessions = [session for person in self.people for session in person.sessions.values() if not session.closing]
        return sessions[which % len(sessions)]

    # What clients hear

    def hear(self, person: Person, event: Event) -> bool:
        session = person.sessions.get(event.channel)
        match event.name:
            case "connection.blocked" | "connection.unblocked":
                assert person.blocked != (event.name == "connection.blocked")
                person.blocked = not person.blocked
            case "channel.close" | "connection.close":
                raise AssertionError(event)
            case "channel.close-ok":
                del person.sessions[event.channel]
            case _ if session is None or session.closing:
                pass
            case "basic.consume-ok":
                session.asked.remove(session.consumers[event.consumer_tag])
            case "basic.recover-ok":
                # All that came before it has been given back, also what was on its way when it was asked for.
                session.recovering = False
                self.all_given_back(session)
            case "basic.deliver":
                self.delivered(session, session.consumers[event.consumer_tag], event)
                if event.consumer_tag.startswith("no-ack"):
                    session.open.pop(event.delivery_tag)
            case "basic.get-ok":
                queue = session.gets.pop(0)
                self.delivered(session, queue.removeprefix("no-ack "), event)
                if queue.startswith("no-ack "):
                    session.open.pop(event.delivery_tag)
            case "basic.get-empty":
                session.gets.pop(0)
            case "basic.ack" | "basic.nack":
                self.confirmed(session, event)
            case "channel.flow":
                assert session.flows != event.active
                session.flows = event.active
                person.client.send("channel.flow-ok", event.channel, active=event.active)
            case "basic.return":
                raise AssertionError(event)
            case _:
                pass
        return True

    def confirmed(self, session: Session, event: Event) -> None:
        """No confirm comes twice, none for what was not published."""
        waiting = session.tags.keys() - session.told.keys()
        tags = {tag for tag in waiting if tag <= event.delivery_tag} if event.multiple else {event.delivery_tag}
        assert tags and tags <= waiting
        session.told.update(dict.fromkeys(tags, event.name == "basic.ack"))

    def delivered(self, session: Session, queue: str, event: Event) -> None:
        """What arrives was meant for the queue, comes again only if it was given back, and in order otherwise."""
        id = identity(event.body)
        assert id in self.sent_at
        assert self.bound_for[id] == queue.split("-")[0] or queue.split("-")[0] in EXCHANGES.get(self.bound_for[id], ())
        if not self.losses:
            assert self.seen[queue, id] <= self.returned[queue, id]
            assert event.redelivered or not self.seen[queue, id] or (queue, id) in self.unacked_for_ever
        self.seen[queue, id] += 1
        assert event.delivery_tag == session.next_tag
        session.next_tag += 1
        session.open[event.delivery_tag] = queue, id
        if not event.redelivered:
            by = (str(event.arguments.get("consumer_tag", queue)), *id[:2])
            assert session.last.get(by, 0) < id[2] or self.losses or (queue, id) in self.afresh
            session.last[by] = max(id[2], session.last.get(by, 0))

    def given_back(self, session: Session, tag: int) -> None:
        self.returned[session.open.pop(tag)] += 1

    # What clients do

    @rule(
        which=st.integers(0, 50), to=st.sampled_from([*EXCHANGES, *KINDS]), count=st.sampled_from([20, 5, 1]),
        size=st.sampled_from(SIZES),
    )  # fmt: skip
    def publish(self, which: int, to: str, count: int, size: int) -> None:
        session = self.session(which)
        exchange, key = (to, "") if to in EXCHANGES else ("", self.living()[to].name if to in self.living() else "none")
        for _ in range(count):
            self.sent += 1
            session.published += 1
            id = session.client.number, session.number, session.published
            self.sent_at[id] = self.sent
            self.bound_for[id] = to
            if session.confirms:
                session.tags[session.published] = id
            body = b"%d %d %d " % id
            body += bytes(max(size - len(body), 0))
            session.client.client.publish(
                session.number, body, exchange, key, when_read=lambda id=id: self.arrived.append(id),
                delivery_mode=2 if self.stores else 1,
            )  # fmt: skip

    @rule(
        which=st.integers(0, 50), kind=st.sampled_from([*KINDS]), prefetch=st.sampled_from([0, 1, 3, 10]),
        no_ack=st.booleans(), shared=st.sampled_from([None, None, 0, 1, 4]), priority=st.sampled_from([0, 0, 3]),
    )  # fmt: skip
    def consume(self, which: int, kind: str, prefetch: int, no_ack: bool, shared: int | None, priority: int) -> None:
        if kind not in self.living() or len(self.session(which).consumers) > 2:
            return
        session, queue = self.session(which), self.living()[kind].name
        self.last_tag += 1
        tag = f"{'no-ack' if no_ack else 'ack'}-{self.last_tag}"
        session.consumers[tag] = queue
        session.client.client.send("basic.qos", session.number, prefetch_count=prefetch)
        if shared is not None:
            session.client.client.send("basic.qos", session.number, prefetch_count=shared, global_=True)
        session.asked.append(queue)
        session.client.client.send(
            "basic.consume", session.number, queue=queue, consumer_tag=tag, no_ack=no_ack,
            arguments={"x-priority": priority},
        )  # fmt: skip

    @rule(which=st.integers(0, 50))
    def cancel(self, which: int) -> None:
        session = self.session(which)
        for tag in list(session.consumers)[:1]:
            session.client.client.send("basic.cancel", session.number, consumer_tag=tag)

    @rule(which=st.integers(0, 50), kind=st.sampled_from([*KINDS]), no_ack=st.booleans())
    def get(self, which: int, kind: str, no_ack: bool) -> None:
        if kind in self.living():
            session, queue = self.session(which), self.living()[kind].name
            session.gets.append(f"no-ack {queue}" if no_ack else queue)
            session.client.client.send("basic.get", session.number, queue=queue, no_ack=no_ack)

    @rule(
        which=st.integers(0, 50), at=st.integers(0, 30), multiple=st.booleans(),
        how=st.sampled_from(["ack", "ack", "requeue", "reject", "recover"]),
    )  # fmt: skip
    def settle_some(self, which: int, at: int, multiple: bool, how: str) -> None:
        session = self.session(which)
        waiting = [tag for tag in session.open if tag not in session.settled]
        if not waiting or session.recovering:
            return
        tag = waiting[at % len(waiting)]
        tags = [other for other in waiting if other <= tag] if multiple else [tag]
        if how != "recover":
            session.settled.update(tags)

        def when_read() -> None:
            for tag in tags:
                if how == "requeue":
                    self.given_back(session, tag)
                else:
                    del session.open[tag]

        client, number = session.client.client, session.number
        if how == "ack":
            client.send("basic.ack", number, when_read, delivery_tag=tag, multiple=multiple)
        elif how == "recover":
            session.recovering = True
            client.send("basic.recover", number, requeue=True)
        else:
            requeue = how == "requeue"
            client.send("basic.nack", number, when_read, delivery_tag=tag, multiple=multiple, requeue=requeue)

    def all_given_back(self, session: Session) -> None:
        for tag in list(session.open):
            self.given_back(session, tag)

    @rule(which=st.integers(0, 50))
    def close_channel(self, which: int) -> None:
        session = self.session(which)
        self.ends(session)
        session.client.client.send("channel.close", session.number, lambda: self.all_given_back(session), code=200)
        self.open(session.client, session.confirms)

    @rule(which=st.integers(0, 50))
    def leave(self, which: int) -> None:
        """A client drops its connection; another one comes."""
        self.drop(self.people[which % len(self.people)])
        self.people.append(self.arrive())

    def drop(self, person: Person) -> None:
        self.people.remove(person)
        for session in person.sessions.values():
            self.all_given_back(session)
            self.ends(session)
        person.client.lose()

    def ends(self, session: Session) -> None:
        session.closing = True
        self.leaky |= {queue for tag, queue in session.consumers.items() if tag.startswith("no-ack")}
        self.leaky |= {queue.removeprefix("no-ack ") for queue in session.gets}

    @rule(which=st.integers(0, 50), kind=st.sampled_from([*KINDS]))
    def delete(self, which: int, kind: str) -> None:
        kept = self.living().get(kind)
        sessions = [session for person in self.people for session in person.sessions.values()]
        if kept is not None and not any(kept.name in str(session.asked + session.gets) for session in sessions):
            kept.gone = True
            self.session(which).client.client.send("queue.delete", self.session(which).number, queue=kept.name)

    @rule(kind=st.sampled_from([*KINDS]))
    def declare_again(self, kind: str) -> None:
        if kind not in self.living():
            self.declare(kind)

    @rule(kind=st.sampled_from([*KINDS]), definition=st.sampled_from(POLICIES))
    def change_policy(self, kind: str, definition: dict[str, Any] | None) -> None:
        """From now on other limits hold for the queues of a kind, as soon as each has heard of them."""
        self.node.policy(kind, f"^{kind}-", definition)
        there = [queue.name for _, shard in self.node.running_shards() for queue in shard.core.queues.values()]
        there += [self.living()[kind].name] if kind in self.living() else []
        self.changed.update(dict.fromkeys(name for name in there if name.startswith(f"{kind}-")))

    # What the node does

    @rule(seed=st.integers(0, 1 << 16), moves=st.sampled_from([3, 15, 60]))
    def move(self, seed: int, moves: int) -> None:
        """This and that goes a step on."""
        schedule = Random(seed)
        for _ in range(moves):
            self.move_one(schedule.choice(MOVES), schedule.randrange(60), schedule.randrange(60))
            self.no_queue_overshoots()

    def move_one(self, what: str, at: int, to: int) -> None:
        """`at` is where, `to` the other end."""
        acceptors, shards = len(self.node.acceptors), len(self.node.shards)
        match what:
            case "read":
                self.people[at % len(self.people)].client.read()
            case "part":
                self.people[at % len(self.people)].client.read(1 + 100 * to)
            case "finish":
                self.node.finish(at % acceptors)
            case "decide":
                self.node.finish_shard(at % shards)
            case "up":
                self.node.send_up(at % acceptors, to % shards)
            case "change" | "reply":
                lives = [*self.node.acceptors, *self.node.shards]
                life = lives[at % len(lives)]
                if life is not None:
                    (self.node.change if what == "change" else self.node.reply)(life)
            case "meet":
                self.node.meet(at % acceptors)
            case "mourn":
                self.node.mourn(at % shards)
            case _:
                self.node.send_down(to % shards, at % acceptors, what)

    @rule(acceptor=st.integers(0, 9), which=st.integers(0, 9), keep=st.booleans())
    def stray(self, acceptor: int, which: int, keep: bool) -> None:
        if self.node.acceptors[acceptor % len(self.node.acceptors)] is not None:
            self.node.stray(acceptor % len(self.node.acceptors), which, keep)

    @rule(which=st.integers(0, 9), shards=st.booleans(), reply=st.booleans())
    def follow(self, which: int, shards: bool, reply: bool) -> None:
        lives = self.node.shards if shards else self.node.acceptors
        life = lives[which % len(lives)]
        if life is not None:
            (self.node.reply if reply else self.node.change)(life)

    @rule(which=st.integers(0, 9), seconds=st.sampled_from([0.01, 1.0]))
    def time_passes(self, which: int, seconds: float) -> None:
        self.node.now += seconds
        if self.node.acceptors[which % len(self.node.acceptors)] is not None:
            self.node.recheck(which % len(self.node.acceptors))

    @rule(slow=st.sampled_from([None, 0, 1]), steps=st.sampled_from([1, 10]))
    def go_on(self, slow: int | None, steps: int) -> None:
        """All of it goes on, but for what one acceptor has sent."""
        for _ in range(steps):
            self.node.step(slow)
            self.no_queue_overshoots()

    # What must hold

    @invariant()
    def no_queue_overshoots(self) -> None:
        if not hasattr(self, "node"):
            return
        acceptors = len(self.node.acceptors)
        for _, shard in self.node.running_shards():
            for queue in shard.core.queues.values():
                marks, before = queue.limits.marks, self.changed.get(queue.name, (0, 0))
                if before is None:
                    continue
                overshoots = min(acceptors, 2) + self.losses
                if marks.stop_count:
                    late = max(overshoots * marks.overshoot_count, acceptors + self.losses)
                    assert queue.depth <= max(marks.stop_count + late, before[0])
                if marks.stop_bytes:
                    late = overshoots * marks.overshoot_bytes + (acceptors + self.losses) * LARGEST
                    assert queue.depth_bytes <= max(marks.stop_bytes + late, before[1])

    @invariant()
    def nothing_breaks(self) -> None:
        if hasattr(self, "node"):
            assert not [line for line in self.node.logs if line["log_level"] in ("error", "critical")]

    @invariant()
    def shared_prefetch_holds(self) -> None:
        if hasattr(self, "node"):
            within_limits(self.node)

    @precondition(lambda self: self.sent)
    @rule()
    def rest(self) -> None:
        """Everything is delivered: who waits still has a reason to, and the books are right."""
        self.revive()
        self.node.settle(4)
        for kept in self.living().values():
            if kept.name in self.changed:
                queue = self.node.state(kept.name)
                self.changed[kept.name] = queue.depth, queue.depth_bytes
        for index, life in self.node.running_acceptors():
            self.nobody_waits_in_vain(life.core)
            self.parking_is_counted(index, life.core)
        for index, _ in self.node.running_shards():
            self.gauges_are_right(index)
        nobody_starves(self.node)
        self.nothing_is_lost()
        self.confirms_are_right()
        for person in self.people:
            for session in person.sessions.values():
                channel = person.client.connection.channels.get(session.number)
                assert session.flows or session.closing or (channel is not None and channel.held_by is not None)

    def revive(self) -> None:
        """Who has died comes back."""

    def nobody_waits_in_vain(self, core: AcceptorCore) -> None:
        for link in core.links:
            assert (link.in_flight, link.next.count, len(link.sent), len(link.requests)) == (0, 0, 0, 0)
            assert not link.waiting or link.is_saturated()
        for inlet in core.inlets.values():
            assert (inlet.in_flight, inlet.in_flight_bytes) == (0, 0)
            assert not inlet.waiting or inlet.is_saturated() or elsewhere(inlet)
            assert not inlet.withheld or inlet.is_saturated()
        for channel in [*core.orphans, *(c for p in core.connections.values() for c in p.channels.values())]:
            assert channel.running is None
            if channel.inbox or channel.gates or channel.held_by is not None:
                assert any(gate.is_saturated() for gate in channel.gates) or (channel.withheld and not channel.inbox)
                assert channel.detached or channel.held_by is not None

    def parking_is_counted(self, index: int, core: AcceptorCore) -> None:
        throttle = core.throttle
        octets = {channel: sum(item.octets for item in channel.inbox) for channel in self.node.channels()}
        here = {channel: size for channel, size in octets.items() if channel.core is core}
        assert throttle.parked_octets == sum(here.values())
        assert throttle.orphan_octets == sum(size for channel, size in here.items() if channel.detached)
        assert set(throttle.held) == {channel for channel in here if channel.held_by is not None}
        for connection in core.connections.values():
            assert connection.parked_octets == sum(here[channel] for channel in connection.channels.values())
            assert connection.reads == (connection not in throttle.paused)
            assert connection.reads or connection.parked_octets > throttle.parking_octets // 2
        counters = self.node.gauges.counters_read("acceptor", index)
        assert (counters.held_sessions, counters.parked_bytes) == (len(throttle.held), throttle.parked_octets)
        assert (counters.connections, counters.paused_connections) == (len(core.connections), len(throttle.paused))

    def gauges_are_right(self, index: int) -> None:
        core = self.node.shard(index)
        weight = 0
        for queue in core.queues.values():
            contents, marks = queue.contents, queue.limits.marks
            weight += queue.weight
            saturated = queue.saturation.saturated
            assert marks.saturated(saturated, queue.depth, queue.depth_bytes) == saturated
            gauge = self.node.gauges.queue_read(queue.slot)
            assert gauge is not None
            assert (gauge.queue_id, gauge.name, gauge.consumers) == (queue.id, queue.name, len(queue.ring))
            assert (gauge.ready, gauge.unacked) == (contents.ready, contents.unacked)
            assert (gauge.ready_bytes, gauge.unacked_bytes) == (contents.ready_bytes, contents.unacked_bytes)
            assert (gauge.flow_epoch, gauge.saturated) == (queue.saturation.epoch, queue.saturation.saturated)
            published = gauge.published + self.node.recovered(index, queue.id)
            assert published == gauge.ready + gauge.unacked + gauge.acked + gauge.dropped
        assert core.weight == weight
        memory = self.node.gauges.queue_read(index)
        assert memory is not None
        room = core.gate.room
        assert (memory.ready_bytes, memory.saturated) == (weight, room.saturated)
        assert room.marks[MEMORY].saturated(room.saturated, 0, weight) == room.saturated
        assert bool(memory.name) == memory.saturated

    def nothing_is_lost(self) -> None:
        """What was read by an acceptor is parked there, or has entered its queue; and nothing else has."""
        waiting = {identity(body) for channel in self.node.channels() for _, body in parked(channel)}
        arrived = set(self.arrived)
        for kept in self.living().values():
            life = self.node.shards[self.node.queue(kept.name).shard]
            assert life is not None
            entered = [identity(body) for body in life.entered[kept.id]]
            meant = {id for id in arrived if self.meant_for(id, kept)}
            must = {id for id in meant if self.sent_at[id] > kept.born}
            contents = self.node.state(kept.name).contents
            assert contents.published + life.rejected[kept.id] == len(entered)
            assert len(set(entered)) == len(entered)
            assert in_order([id for id in entered if (kept.name, id) not in self.afresh])
            assert not must & waiting & set(entered)
            assert must - waiting <= set(entered) | self.gone_with_others(kept)
            if not self.losses:
                assert set(entered) <= meant
                # A client that is paused may have closed a channel whose close nobody has read.
                if not any(session.closing for person in self.people for session in person.sessions.values()):
                    assert contents.unacked == sum(at[0] == kept.name for at in self.held_deliveries())

    def gone_with_others(self, kept: Kept) -> set[Id]:
        """What had entered a queue in an earlier life of its shard, or was with an acceptor that died."""
        return set()

    def held_deliveries(self) -> list[tuple[str, Id]]:
        """Deliveries that clients have in hand, as the acceptors must know them by now."""
        sessions = [session for person in self.people for session in person.sessions.values()]
        return [delivery for session in sessions for delivery in session.open.values()]

    def meant_for(self, id: Id, kept: Kept) -> bool:
        to = self.bound_for[id]
        return to == kept.kind or kept.kind in EXCHANGES.get(to, ())

    def confirms_are_right(self) -> None:
        """An unconfirmed publish is parked, or withheld: one of its queues is saturated."""
        arrived = set(self.arrived)
        for person in self.people:
            for session in person.sessions.values():
                channel = person.client.connection.channels.get(session.number)
                if channel is not None and session.confirms and not session.closing:
                    withheld = {span for inlet in channel.core.inlets.values() for span in inlet.withheld}
                    tags = {identity(body)[2] for _, body in parked(channel)}
                    for span in withheld:
                        if span.confirms is channel.confirms:
                            tags |= set(range(span.first, span.first + span.count))
                    assert tags == {tag for tag, id in session.tags.items() if id in arrived} - session.told.keys()

    def everything_ends(self) -> None:
        """All that is in hand is settled and all queues are emptied: then all has arrived, and all is told."""
        self.revive()
        for kept in self.queues.values():
            if kept.gone:
                self.node.ask("queue_delete", queue_id=kept.id)
        drainer = self.arrive()
        self.people.append(drainer)
        session = drainer.sessions[2]
        for kept in self.living().values():
            session.consumers[f"drain-{kept.name}"] = kept.name
            session.asked.append(kept.name)
            drainer.client.send("basic.consume", 2, queue=kept.name, consumer_tag=f"drain-{kept.name}")
        for _ in range(400):
            self.node.settle(1)
            for person in self.people:
                for session in person.sessions.values():
                    tags = list(session.open.keys() - session.settled)
                    if tags and not session.closing and not session.recovering:
                        session.settled.update(tags)
                        person.client.send(
                            "basic.ack", session.number, lambda s=session, t=tags: self.acked(s, t),
                            delivery_tag=max(tags), multiple=True,
                        )  # fmt: skip
            if not any(person.client.unread for person in self.people) and not any(self.depths()):
                break
        self.rest()
        assert not any(self.depths())
        for _, life in self.node.running_acceptors():
            assert (life.core.throttle.parked_octets, life.core.throttle.held, life.core.throttle.paused) == (0, {}, {})
        for person in self.people:
            assert not person.blocked
            for session in person.sessions.values():
                assert session.told.keys() == session.tags.keys()
        self.all_was_seen()

    def acked(self, session: Session, tags: list[int]) -> None:
        for tag in tags:
            session.open.pop(tag, None)

    def depths(self) -> list[int]:
        return [queue.depth for _, life in self.node.running_shards() for queue in life.core.queues.values()]

    def all_was_seen(self) -> None:
        arrived = set(self.arrived)
        for kept in self.living().values():
            contents = self.node.state(kept.name).contents
            life = self.node.shards[self.node.queue(kept.name).shard]
            assert life is not None
            seen = {id for queue, id in self.seen if queue == kept.name}
            must = {id for id in arrived if self.meant_for(id, kept) and self.sent_at[id] > kept.born}
            if kept.name not in self.leaky and not self.losses:
                assert len(must - seen) <= contents.dropped + life.rejected[kept.id] + self.refused_before(kept)

    def refused_before(self, kept: Kept) -> int:
        """What earlier lives of its shard dropped or refused."""
        return 0


def identity(body: bytes) -> Id:
    client, channel, number, _ = body.split(b" ", 3)
    return int(client), int(channel), int(number)


def in_order(ids: list[Id]) -> bool:
    """Whether each publisher's messages are in the order of their numbers."""
    last: dict[tuple[int, int], int] = {}
    for client, channel, number in ids:
        if last.get((client, channel), 0) > number:
            return False
        last[client, channel] = number
    return True


def elsewhere(inlet: Inlet) -> bool:
    """Whether all who wait at a queue with room wait for another one that has none."""
    return all(any(gate.is_saturated() for gate in session.gates) for session in inlet.waiting)  # type: ignore[attr-defined]
