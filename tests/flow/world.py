"""The clients and queues of the model, their state, and how clients process what they receive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from tests.flow.books import BookedNode
from tests.frames import Event
from tests.raw import JAVA
from tests.simulator.bounds import AMQP, LITTLE, USERS_SHARE
from tests.simulator.joined.client import Client
from tests.simulator.users import EVE, MALLORY, NOWHERE

SIZES = (0, 100, 9000, 20000)
LARGEST = max(SIZES) + 32
BESIDE = 256
"""The most bytes that a message counts beside its body: address, properties, and its own overhead."""
COUNT = {"qpid.flow_stop_count": 8, "qpid.flow_resume_count": 4}
BYTES = {"qpid.flow_stop_size": 60_000, "qpid.flow_resume_size": 20_000}
BOTH = {
    "qpid.flow_stop_count": 40, "qpid.flow_resume_count": 0, "qpid.flow_stop_size": 90_000,
    "qpid.flow_resume_size": 60_000,
}  # fmt: skip
RING = {"x-max-length": 5}
RATED = {"x-max-rate": 40, "x-rate-burst": "100 ms"}
REFUSE = {"x-max-length": 6, "x-overflow": "reject-publish"}
# The queues: their arguments and their shard (of two).
KINDS: dict[str, tuple[dict[str, Any], int]] = {
    "count": (COUNT, 0), "bytes": (BYTES, 1), "both": (BOTH, 1), "free": ({}, 0), "ring": (RING, 1),
    "refuse": (REFUSE, 0), "paced": ({"x-pace-depth": 6}, 1), "rated": (RATED, 0), "lurker": (COUNT, 1),
    "spurner": (REFUSE, 1), "dawdler": (RATED, 0),
}  # fmt: skip
# Unprivileged queues: bound by a user who may not write to the exchange.
UNPRIVILEGED = frozenset({"lurker", "spurner", "dawdler"})
# Fanout exchanges, and the kinds of queues that are bound to them.
EXCHANGES = {
    "some": ("count", "bytes", "free", "lurker"), "marked": ("both", "count", "spurner"),
    "metered": ("paced", "rated", "free", "dawdler"), "shy": ("free", "lurker", "spurner", "dawdler"),
    "all": ("count", "bytes", "both", "free", "ring", "refuse", "paced", "lurker"),
}  # fmt: skip
CLIENTS = 4
PY_AMQP = {"product": "py-amqp", "product_version": "5.4.0", "version": "5.4.0"}
GO = {"product": "AMQP 0.9.1 Client", "platform": "golang"}
# The clients' properties, and whether they stop publishing on a channel that gets Channel.Flow: one that does, one that
# does not, two whose sockets must not go unread, and an unknown one.
CLIENT_KINDS: tuple[tuple[dict[str, Any], bool], ...] = (
    (JAVA, True), (JAVA, False), (PY_AMQP, False), ({}, False), (GO, False),
)  # fmt: skip

READ = 16 * 1024
"""How many bytes are read at once if little is kept for clients."""

Id = tuple[int, int, int]
"""A message: number of the client, of the channel, and of the publish."""


@dataclass
class Kept:
    """A queue as the model has it; `born` is in the numbering of publishes, `born_at` in seconds of the node."""

    name: str
    kind: str
    id: int
    born: int
    born_at: float
    gone: bool = False


@dataclass
class Session:
    """A channel as its client has it. `open` has deliveries by tag, as (queue, message), until their ack is read.

    In a channel with transactions (`tx`), `uncommitted` and `unsettled` (tags, and whether they are given back) belong
    to the transaction that has begun; `committing` are those whose commit is not answered.
    """

    client: Person
    number: int
    confirms: bool
    tx: bool
    published: int = 0
    answered: dict[int, bool] = field(default_factory=dict)
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
    uncommitted: list[Id] = field(default_factory=list)
    unsettled: dict[int, bool] = field(default_factory=dict)
    committing: list[tuple[list[Id], dict[int, bool]]] = field(default_factory=list)


@dataclass
class Person:
    """One client with all of its channels; whether it `obeys` Channel.Flow, and why it is `blocked`."""

    number: int
    client: Client
    obeys: bool
    sessions: dict[int, Session] = field(default_factory=dict)
    blocked: str = ""
    next_channel: int = 1


class World(RuleBasedStateMachine):
    """The world of the model. `losses` counts deaths of processes: after one, less is certain."""

    losses = 0
    stores = False
    # Messages delivered without acks. If a shard dies before it has written that, they may come again, unmarked.
    unacked_for_ever: AbstractSet[tuple[str, Id]] = frozenset()

    @initialize(
        acceptors=st.sampled_from([1, 2, 2, 4]),
        shards=st.integers(1, 2),
        memory=st.sampled_from([1 << 30, 1 << 30, 400_000]),
        share=st.sampled_from([0, 0, 50, None]),
        lanes=st.booleans(),
        last_resort=st.sampled_from([None, None, "close", "pause", "nack"]),
    )
    def start(
        self, acceptors: int, shards: int, memory: int, share: int | None, lanes: bool, last_resort: str | None
    ) -> None:
        """Build the node. If `share` is not 0, queues may lag: then their depth is not bounded. With `lanes` some
        messages overtake others, also in other queues that these go to. With a `last_resort` few publishes may be
        parked.
        """
        flow: dict[str, Any] = {
            "parking_bytes": 30_000,
            "pair_count": 64,
            "pair_bytes": 65536,
            "consumer_window_bytes": 65536,
        }
        self.last_resort = last_resort
        spools = last_resort is not None
        if spools:
            flow |= LITTLE | {"last_resort": last_resort}
        bounds = {"process_limit": 100 * acceptors * USERS_SHARE, "user_percent": 1}
        self.node = BookedNode(
            acceptors, shards, flow, self.stores, spools, memory_limit=memory, memory=bounds, amqp=AMQP
        )
        self.node.show_lives()
        self.node.add_user(MALLORY, NOWHERE)
        self.node.add_user(EVE)
        self.share = share
        self.lanes = lanes
        if share is not None:
            self.node.policy("share", "", {"flow-share": f"{share} %"}, "exchanges")
        self.sent = 0
        self.sent_at: dict[Id, int] = {}
        self.bound_for: dict[Id, str] = {}
        self.sizes: dict[Id, int] = {}
        self.arrived: list[Id] = []
        # Transactions whose outcome no client has received: each is done as a whole, or not at all.
        self.undecided: list[list[Id]] = []
        self.committed: set[Id] = set()
        # The most messages and bytes that one commit brought to the queues of a kind, and to all ("").
        self.largest: dict[str, tuple[int, int]] = {}
        self.seen: dict[tuple[str, Id], int] = defaultdict(int)
        self.returned: dict[tuple[str, Id], int] = defaultdict(int)
        # Messages that may come again as if new, in any order: a shard died before it had written them.
        self.afresh: set[tuple[str, Id]] = set()
        # Queues from which a client consumed without acks before it left.
        self.leaky: set[str] = set()
        # Queues that a policy has changed: depth and bytes when the change had arrived everywhere, None before.
        self.changed: dict[str, tuple[int, int] | None] = {}
        # Operators' stops by number: counts that must not grow while one holds (None: it has not arrived everywhere).
        self.stops: dict[int, dict[str, int] | None] = {}
        self.people: list[Person] = []
        self.homes: dict[int, int] = {}
        # The clients' numbers by the ids of their connections.
        self.numbers: dict[str, int] = {}
        self.last_client = 0
        self.last_tag = 0
        self.queues: dict[str, Kept] = {}
        for kind in KINDS:
            self.declare(kind)
        for _ in range(CLIENTS):
            self.people.append(self.arrive())

    def declare(self, kind: str) -> None:
        """Declare the queue of a kind, under a name that was never used."""
        name = f"{kind}-{len(self.queues)}"
        arguments, shard = KINDS[kind]
        record = self.node.declare(name, min(shard, len(self.node.shards) - 1), self.stores, **arguments)
        for exchange, kinds in EXCHANGES.items():
            if kind in kinds:
                self.node.bind(exchange, name, user=MALLORY if kind in UNPRIVILEGED else "guest")
        self.queues[name] = Kept(name, kind, record.queue_id, self.sent, self.node.now)

    def living(self) -> dict[str, Kept]:
        """Return the queues that exist, by kind."""
        return {kept.kind: kept for kept in self.queues.values() if not kept.gone}

    def arrive(self) -> Person:
        """Connect a client, with a channel that has confirms, one without, and one with transactions."""
        self.last_client += 1
        running = [index for index, _ in self.node.running_acceptors()]
        acceptor = running[self.last_client % len(running)]
        properties, obeys = CLIENT_KINDS[self.last_client % len(CLIENT_KINDS)]
        client = self.node.connect(acceptor, properties)
        client.most, client.fills = (READ, True) if self.last_resort is not None else (client.most, False)
        self.numbers[client.connection.id] = self.last_client
        person = Person(self.last_client, client, obeys)
        self.homes[person.number] = acceptor
        client.on_event = lambda event: self.hear(person, event)
        for confirms, tx in ((True, False), (False, False), (False, True)):
            self.open(person, confirms, tx)
        return person

    def open(self, person: Person, confirms: bool, tx: bool) -> None:
        """Open a channel."""
        number = person.next_channel
        person.next_channel += 1
        person.sessions[number] = Session(person, number, confirms, tx)
        person.client.send("channel.open", number)
        if confirms:
            person.client.send("confirm.select", number)
        if tx:
            person.client.send("tx.select", number)

    def person(self, which: int) -> Person:
        """Return a client; connect one if there is none."""
        while not self.people:
            self.people.append(self.arrive())
        return self.people[which % len(self.people)]

    def session(self, which: int) -> Session:
        """Return a channel that is not being closed."""
        self.person(which)
        sessions = [session for person in self.people for session in person.sessions.values() if not session.closing]
        return sessions[which % len(sessions)]

    # Events that clients receive

    def hear(self, person: Person, event: Event) -> bool:
        """Process a client's event."""
        session = person.sessions.get(event.channel)
        match event.name:
            case "connection.blocked" | "connection.unblocked":
                # Connection.blocked is repeated only with another reason.
                reason = event.reason if event.name == "connection.blocked" else ""
                assert person.blocked != reason
                person.blocked = reason
            case "channel.close" | "connection.close":
                raise AssertionError(event)
            case "channel.close-ok":
                del person.sessions[event.channel]
            case "basic.recover-ok" if session is not None:
                # All deliveries before it have been given back, also those in flight at the request. A client that
                # closes the channel meanwhile has not given them back another time.
                session.recovering = False
                self.all_given_back(session)
            case "basic.ack" | "basic.nack" if session is not None:
                self.confirmed(session, event)
            case _ if session is None or session.closing:
                pass
            case "basic.consume-ok":
                session.asked.remove(session.consumers[event.consumer_tag])
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
        """Check that no confirm comes twice, and none for a tag that was not published."""
        waiting = session.tags.keys() - session.answered.keys()
        tags = {tag for tag in waiting if tag <= event.delivery_tag} if event.multiple else {event.delivery_tag}
        assert tags and tags <= waiting
        session.answered.update(dict.fromkeys(tags, event.name == "basic.ack"))

    def delivered(self, session: Session, queue: str, event: Event) -> None:
        """Check that a delivery was meant for the queue, and comes in order, or was given back before."""
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
            in_turn = session.last.get(by, 0) < id[2] or self.losses or (queue, id) in self.afresh
            assert in_turn or self.lanes
            session.last[by] = max(id[2], session.last.get(by, 0))

    def given_back(self, session: Session, tag: int) -> None:
        """Record that a delivery was given back."""
        self.returned[session.open.pop(tag)] += 1

    def all_given_back(self, session: Session) -> None:
        """Record that all deliveries of a channel were given back."""
        for tag in list(session.open):
            self.given_back(session, tag)


def identity(body: bytes) -> Id:
    """Return the message of a body."""
    client, channel, number, _ = body.split(b" ", 3)
    return int(client), int(channel), int(number)
