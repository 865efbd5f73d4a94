"""The clients of a world: producers and consumers as small state machines, each with a channel and habits of its own.

A client acts at times that it draws, and reacts to what it receives. One that obeys publishes nothing while its channel
is stopped or its connection blocked. When its connection or its acceptor is gone, it connects again.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from random import Random
from typing import Any

from tests.frames import Event
from tests.joined import Client
from tests.raw import JAVA
from tests.simulator.engine import Engine
from tests.simulator.plan import FANOUT, ClientPlan, Habit
from tests.simulator.truth import Id, Truth, identity

CHANNEL = 1
SIZES = (0, 0, 100, 9000)
AWAY_SECONDS = 0.05
DRAINER = 0
PLAIN: dict[str, Any] = {}


class Phase(Enum):
    """A client's life: it logs in, acts, ends what it has begun, and is gone."""

    ARRIVING = "arriving"
    ACTING = "acting"
    SILENT = "silent"
    GONE = "gone"


Arrive = Callable[["Person"], None]
"""Connects a client again."""


class Person:
    """A client of the world. Subclasses say what it does (`act`) and how it processes events (`receive`). `pace` is the
    average time between its actions, in seconds; `digest` is of all that it has received, and when.
    """

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan, arrive: Arrive) -> None:
        self.engine = engine
        self.timeline = engine.timeline
        self.truth = truth
        self.plan = plan
        self.arrive = arrive
        self.chance: Random = engine.chance(f"client {plan.number}")
        self.digest = hashlib.blake2b(digest_size=8)
        self.phase = Phase.ARRIVING
        self.client: Client
        self.connected = False
        self.flows = True
        self.blocked = False
        self.acts_again = False
        self.connections = 0
        self.pace = self.chance.choice([0.005, 0.02, 0.1])

    @property
    def name(self) -> str:
        """What the story calls it."""
        return f"{self.plan.habit} {self.plan.number}"

    @property
    def properties(self) -> dict[str, Any]:
        """What it says about itself: one that obeys Channel.Flow is a client that is known to."""
        return JAVA if self.plan.obeys else PLAIN

    # Coming and going

    def connect(self, client: Client) -> None:
        """Log in, and open a channel."""
        self.client = client
        self.connected = True
        self.connections += 1
        self.phase = Phase.ARRIVING
        self.flows, self.blocked = True, False
        client.on_event = partial(self.on_event, client)
        client.log_in()
        client.send("channel.open", CHANNEL)
        self.begin()

    def begin(self) -> None:
        """Say what comes first on the channel."""

    def is_connected(self) -> bool:
        """Whether it has a connection."""
        return self.connected and not self.client.socket.closed

    def is_cut_off(self) -> None:
        """Notice that the connection is gone; come back unless the play ends."""
        self.lost()
        if self.phase is not Phase.SILENT:
            self.phase = Phase.GONE
            self.timeline.after(AWAY_SECONDS, partial(self.arrive, self))

    def leave(self) -> None:
        """Drop the connection without a word."""
        self.engine.narrate(f"{self.name} drops its connection")
        self.client.lose()
        self.is_cut_off()

    def lost(self) -> None:
        """Record what was under way on the connection that is gone."""

    def falls_silent(self) -> None:
        """Begin nothing new."""
        self.phase = Phase.SILENT

    def unanswered(self) -> Any:
        """Return what it still waits for, if its connection lives."""
        return None

    # Actions and events

    def on_event(self, client: Client, event: Event) -> bool:
        """Process an event of a connection, unless it was of an earlier one."""
        if client is not self.client:
            return True
        words = f"{self.timeline.now:.9f} {event.name} {event.channel} {event.arguments} "
        self.digest.update(words.encode() + event.body)
        match event.name:
            case "channel.open-ok" if self.phase is Phase.ARRIVING:
                self.phase = Phase.ACTING
                self.later()
            case "channel.flow":
                assert self.flows != event.active, "a flow that says what the client knows"
                self.flows = event.active
                self.client.send("channel.flow-ok", CHANNEL, active=event.active)
                self.later()
            case "connection.blocked" | "connection.unblocked":
                self.blocked = event.name == "connection.blocked"
                self.later()
            case "connection.close":
                raise AssertionError(f"{self.name} is refused: {event}")
            case _:
                self.receive(event)
                self.later()
        return True

    def receive(self, event: Event) -> None:
        """Process an event of the channel."""

    def later(self) -> None:
        """Act again after a while."""
        if not self.acts_again and self.phase is Phase.ACTING:
            self.acts_again = True
            self.timeline.after(self.chance.expovariate(1 / self.pace), partial(self.acts, self.connections))

    def acts(self, connection: int) -> None:
        """Act, if this is still the same connection, and again later; if it may not, it waits for an event."""
        self.acts_again = False
        if self.phase is not Phase.ACTING or not self.is_connected():
            return
        if connection == self.connections and self.may_act():
            self.act()
            self.engine.arm((self.engine.reads[self.plan.number],))
            self.later()

    def may_act(self) -> bool:
        """Whether nothing forbids it."""
        return True

    def act(self) -> None:
        """Do something."""


class Producer(Person):
    """Publishes, with confirms, without, or in transactions."""

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan, arrive: Arrive) -> None:
        super().__init__(engine, truth, plan, arrive)
        self.targets = [queue.name for queue in engine.plan.queues] + [FANOUT]
        self.published = 0
        self.tag = 0
        self.unconfirmed: dict[int, Id] = {}
        self.uncommitted: list[Id] = []
        self.committing: deque[list[Id]] = deque()

    def begin(self) -> None:
        self.tag = 0
        if self.plan.habit is Habit.CONFIRMING:
            self.client.send("confirm.select", CHANNEL)
        elif self.plan.habit is Habit.TRANSACTING:
            self.client.send("tx.select", CHANNEL)

    def may_act(self) -> bool:
        stopped = not self.flows or self.blocked
        return not (stopped and self.plan.obeys) and len(self.unconfirmed) < 200 and len(self.committing) < 3

    def act(self) -> None:
        if self.chance.random() < 0.003:
            self.leave()
            return
        for _ in range(self.chance.choice([1, 1, 5, 20])):
            self.publish(self.chance.choice(self.targets))
        if self.plan.habit is Habit.TRANSACTING and self.chance.random() < 0.3:
            self.end_transaction()

    def publish(self, target: str) -> None:
        """Publish a persistent message to a queue or to the fanout exchange."""
        self.published += 1
        id = Id(self.plan.number, self.published)
        to = (target, "") if target == FANOUT else ("", target)
        self.truth.published(id, target, self.timeline.now, self.connections)
        body = b"%d %d " % id + bytes(self.chance.choice(SIZES))
        transacts = self.plan.habit is Habit.TRANSACTING
        when_read = None if transacts else partial(self.truth.was_read, id, self.client.acceptor)
        if transacts:
            self.uncommitted.append(id)
        elif self.plan.habit is Habit.CONFIRMING:
            self.tag += 1
            self.unconfirmed[self.tag] = id
        self.client.publish(CHANNEL, body, *to, when_read, delivery_mode=2)

    def end_transaction(self) -> None:
        """Commit, or roll back."""
        ids, self.uncommitted = self.uncommitted, []
        if self.chance.random() < 0.2:
            self.truth.rolled_back(ids)
            self.client.send("tx.rollback", CHANNEL)
        else:
            self.truth.committing(ids)
            self.committing.append(ids)
            self.client.send("tx.commit", CHANNEL)

    def receive(self, event: Event) -> None:
        match event.name:
            case "basic.ack" | "basic.nack":
                self.confirmed(event)
            case "tx.commit-ok":
                self.truth.committed(self.committing.popleft())
            case "channel.close":
                self.refused(event)
            case "basic.return":
                raise AssertionError(f"returned to {self.name}: {event}")

    def confirmed(self, event: Event) -> None:
        """Record confirms: each tag once."""
        last = event.delivery_tag
        tags = [tag for tag in self.unconfirmed if tag <= last] if event.multiple else [last]
        assert tags and all(tag in self.unconfirmed for tag in tags), f"a confirm of nothing: {event}"
        for tag in tags:
            id = self.unconfirmed.pop(tag)
            (self.truth.confirmed if event.name == "basic.ack" else self.truth.nacked)(id)

    def refused(self, event: Event) -> None:
        """Record that a commit found no room in a refusing queue, which ends the channel: open it again."""
        assert self.committing, f"{self.name} is refused: {event}"
        assert "no room in queue" in event.text, event
        self.truth.rolled_back(self.committing.popleft())
        self.lost()
        self.client.send("channel.close-ok", CHANNEL)
        self.client.send("channel.open", CHANNEL)
        self.flows = True
        self.begin()

    def lost(self) -> None:
        self.truth.rolled_back(self.uncommitted)
        for ids in self.committing:
            self.truth.undecided(ids)
        self.uncommitted.clear()
        self.committing.clear()
        self.unconfirmed.clear()

    def falls_silent(self) -> None:
        """Publish nothing more, and roll back what was not committed."""
        super().falls_silent()
        if self.uncommitted and self.is_connected():
            self.truth.rolled_back(self.uncommitted)
            self.uncommitted = []
            self.client.send("tx.rollback", CHANNEL)

    def unanswered(self) -> Any:
        if not self.is_connected():
            return None
        return len(self.unconfirmed) + len(self.committing)


class Consumer(Person):
    """Consumes from a queue, and settles as is its habit."""

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan, arrive: Arrive) -> None:
        super().__init__(engine, truth, plan, arrive)
        self.queues = [queue.name for queue in engine.plan.queues]
        self.prefetch = self.chance.choice([0, 1, 5, 50])
        self.refuses = self.chance.choice([0.0, 0.0, 0.1, 0.5])
        self.slow = self.chance.choice([0.0, 0.0, 0.3])
        self.unacked: dict[int, tuple[str, Id]] = {}

    def begin(self) -> None:
        self.unacked = {}
        self.client.send("basic.qos", CHANNEL, prefetch_count=self.prefetch)
        some = self.queues if self.plan.number == DRAINER else [self.chance.choice(self.queues)]
        for queue in some:
            self.client.send("basic.consume", CHANNEL, queue=queue, consumer_tag=queue)

    def receive(self, event: Event) -> None:
        match event.name:
            case "basic.deliver":
                self.delivered(event.consumer_tag, event)
            case "channel.close":
                raise AssertionError(f"{self.name} is refused: {event}")

    def delivered(self, queue: str, event: Event) -> None:
        """Keep a delivery."""
        id = identity(event.body)
        self.truth.delivered(queue, id, event.redelivered, self.timeline.now, self.consumer(queue))
        self.unacked[event.delivery_tag] = queue, id

    def consumer(self, queue: str) -> str:
        """Return what the order of deliveries belongs to."""
        return f"{self.plan.number}/{self.connections}/{queue}"

    def may_act(self) -> bool:
        return bool(self.unacked)

    def act(self) -> None:
        if self.chance.random() < 0.005:
            self.leave()
        elif self.unacked and self.chance.random() >= self.slow:
            self.settle()

    def settle(self) -> None:
        """Ack, requeue or reject some deliveries."""
        tags = list(self.unacked)
        tag = self.chance.choice(tags)
        multiple = self.chance.random() < 0.7
        some = [each for each in tags if each <= tag] if multiple else [tag]
        gone = [self.unacked.pop(each) for each in some]
        if self.chance.random() >= self.refuses:
            self.truth.acked(gone)
            self.client.send(
                "basic.ack", CHANNEL, partial(self.truth.ack_read, gone), delivery_tag=tag, multiple=multiple
            )
        elif self.chance.random() < 0.7:
            self.truth.given_back(gone)
            self.client.send("basic.nack", CHANNEL, delivery_tag=tag, multiple=multiple, requeue=True)
        else:
            self.truth.acked(gone)
            when_read = partial(self.truth.ack_read, gone)
            self.client.send("basic.nack", CHANNEL, when_read, delivery_tag=tag, multiple=multiple, requeue=False)

    def lost(self) -> None:
        self.truth.given_back(list(self.unacked.values()))
        self.unacked.clear()

    def falls_silent(self) -> None:
        """Drop the connection, so that what is unacked returns to its queue."""
        super().falls_silent()
        if self.is_connected():
            self.client.lose()
            self.lost()


class Getter(Consumer):
    """Gets messages one by one."""

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan, arrive: Arrive) -> None:
        super().__init__(engine, truth, plan, arrive)
        self.gets: deque[str] = deque()

    def begin(self) -> None:
        self.unacked = {}
        self.gets.clear()

    def may_act(self) -> bool:
        return True

    def act(self) -> None:
        if self.chance.random() < 0.5 and len(self.gets) < 5:
            self.gets.append(self.chance.choice(self.queues))
            self.client.send("basic.get", CHANNEL, queue=self.gets[-1])
        else:
            super().act()

    def receive(self, event: Event) -> None:
        match event.name:
            case "basic.get-ok":
                self.delivered(self.gets.popleft(), event)
            case "basic.get-empty":
                self.gets.popleft()
            case _:
                super().receive(event)

    def consumer(self, queue: str) -> str:
        return ""


class Drainer(Consumer):
    """Consumes from all queues and acks everything, until there is nothing left."""

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan, arrive: Arrive) -> None:
        super().__init__(engine, truth, plan, arrive)
        self.prefetch, self.pace = 50, 0.005

    def act(self) -> None:
        """Ack everything."""
        tag = max(self.unacked)
        gone = list(self.unacked.values())
        self.unacked.clear()
        self.truth.acked(gone)
        when_read = partial(self.truth.ack_read, gone)
        self.client.send("basic.ack", CHANNEL, when_read, delivery_tag=tag, multiple=True)

    def unanswered(self) -> Any:
        return len(self.unacked)


KINDS: dict[Habit, type[Person]] = {
    Habit.CONFIRMING: Producer, Habit.PLAIN: Producer, Habit.TRANSACTING: Producer, Habit.CONSUMING: Consumer,
    Habit.GETTING: Getter, Habit.DRAINING: Drainer,
}  # fmt: skip


def make_client(engine: Engine, truth: Truth, plan: ClientPlan, arrive: Arrive) -> Person:
    """Return a client with the habit that its plan says."""
    return KINDS[plan.habit](engine, truth, plan, arrive)
