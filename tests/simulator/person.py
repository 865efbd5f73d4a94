"""A client of a world: a small state machine with a channel and habits of its own.

A client acts at times that it draws, and reacts to what it receives. One that obeys publishes nothing while its channel
is stopped or its connection blocked. When its channel is closed, it opens another.
"""

from __future__ import annotations

import hashlib
from enum import Enum
from functools import partial
from random import Random

from acceptor.clients.channel_stage import OPEN
from acceptor.clients.channel_state import ChannelState
from tests.frames import Event
from tests.simulator.connections import ClientConnection
from tests.simulator.engine import Engine
from tests.simulator.joined.client import Client
from tests.simulator.plan import ClientPlan
from tests.simulator.truth import Truth

CHANNEL = 1
SENDABLE = 50
"""Writes that the kernel's buffer takes while the acceptor reads nothing."""


class Phase(Enum):
    """A client's life: it logs in, acts, ends what it has begun, and is gone."""

    ARRIVING = "arriving"
    ACTING = "acting"
    SILENT = "silent"
    GONE = "gone"


class Person:
    """A client of the world. Subclasses say what it does (`act`) and how it processes events (`receive`). `pace` is the
    average time between its actions, in seconds; `digest` is of all that it has received, and when.
    """

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan) -> None:
        self.engine = engine
        self.timeline = engine.timeline
        self.truth = truth
        self.plan = plan
        self.chance: Random = engine.chance(f"client {plan.number}")
        self.digest = hashlib.blake2b(digest_size=8)
        self.phase = Phase.ARRIVING
        self.connection: ClientConnection
        self.number = 0
        """Of its channel."""
        self.closing = False
        self.flows = True
        self.acts_again = False
        self.channels = 0
        """How many channels it has opened."""
        self.pace = self.chance.choice([0.005, 0.02, 0.1])

    user = "guest"
    is_hostile = False
    """Whether the broker may have reasons to close its connection."""
    is_attacking = False
    """Whether it makes the broker keep as much as it can."""

    @property
    def name(self) -> str:
        """What the story calls it."""
        return f"{self.plan.habit} {self.plan.number}"

    @property
    def client(self) -> Client:
        """Its end of the present connection."""
        return self.connection.client

    # Coming and going

    def shares(self, connection: ClientConnection) -> None:
        """Use a channel of a connection."""
        self.connection = connection
        connection.persons.append(self)
        self.number = len(connection.persons)

    def joins(self, client: Client) -> None:
        """Open the channel on a new connection."""
        self.truth.connections.setdefault(client.connection.id, set()).add(self.plan.number)
        client.reads_contents = not self.is_hostile
        self.open_channel()

    def open_channel(self) -> None:
        """Open the channel, the first time or again."""
        self.channels += 1
        self.flows, self.closing = True, False
        if self.phase is not Phase.SILENT:
            self.phase = Phase.ARRIVING
        self.client.send("channel.open", self.number)
        self.begin()

    def begin(self) -> None:
        """Say what comes first on the channel."""

    def is_connected(self) -> bool:
        """Whether it has a connection."""
        return self.connection.is_connected()

    def is_leaving(self) -> bool:
        """Whether its channel or its connection is being closed."""
        return self.closing or self.connection.closing

    def is_silent(self) -> bool:
        """Whether it begins nothing new."""
        return self.phase is Phase.SILENT

    def channel(self) -> ChannelState | None:
        """Return the acceptor's side of its open channel, unless the client closes it or does not hear everything."""
        if not self.is_connected() or self.is_leaving() or self.client.deaf:
            return None
        channel = self.client.connection.channels.get(self.number)
        return None if channel is None or channel.stage is not OPEN else channel

    def go(self) -> None:
        """Close the channel or the connection, or drop the connection without a word."""
        how = self.chance.choice([self.leave, self.connection.close, self.close_channel])
        how()

    def leave(self) -> None:
        """Drop the connection, if there is one, without a word."""
        self.connection.leave()

    def close_channel(self) -> None:
        """Close the channel; it is opened again once that is answered."""
        self.engine.narrate(f"{self.name} closes its channel")
        self.client.send("channel.close", self.number, code=200)
        self.closing = True
        self.lost()

    def closed_channel(self) -> None:
        """Open the channel again, unless the play ends."""
        self.closing = False
        if self.phase is not Phase.SILENT:
            self.open_channel()

    def opens_again(self) -> None:
        """The broker has closed the channel: answer, and open it again."""
        self.lost()
        self.client.send("channel.close-ok", self.number)
        self.open_channel()

    def leaves(self) -> None:
        """The connection is gone, or is being closed."""
        self.lost()
        if self.phase is not Phase.SILENT:
            self.phase = Phase.GONE

    def lost(self) -> None:
        """Record the end of everything under way on the channel."""

    def falls_silent(self) -> None:
        """Begin nothing new."""
        self.phase = Phase.SILENT

    def unanswered(self) -> int:
        """Return how many answers it still waits for while it is connected."""
        return int(self.is_leaving())

    # Actions and events

    def note(self, event: Event) -> None:
        """Enter an event in the digest."""
        words = f"{self.timeline.now:.9f} {event.name} {event.channel} {event.arguments} "
        self.digest.update(words.encode() + event.body)

    def handle(self, event: Event) -> None:
        """Process an event of its channel."""
        self.note(event)
        match event.name:
            case "channel.close-ok":
                self.closed_channel()
            case "channel.close" if self.is_leaving():
                self.client.send("channel.close-ok", self.number)
            case _ if self.is_leaving():
                pass  # it was on its way
            case "channel.open-ok":
                if self.phase is Phase.ARRIVING:
                    self.phase = Phase.ACTING
                self.later()
            case "channel.flow" if event.channel != self.number:
                if self.may_send(event.channel):
                    self.client.send("channel.flow-ok", event.channel, active=event.active)
            case "channel.flow":
                assert self.flows != event.active, "a flow that says what the client knows"
                self.flows = event.active
                self.client.send("channel.flow-ok", self.number, active=event.active)
                self.later()
            case _:
                self.receive(event)
                self.later()

    def may_send(self, channel: int) -> bool:
        """Whether a method may come next on a channel."""
        return True

    def receive(self, event: Event) -> None:
        """Process an event of the channel."""

    def later(self) -> None:
        """Act again after a while."""
        if not self.acts_again and self.phase is Phase.ACTING:
            self.acts_again = True
            self.timeline.after(self.chance.expovariate(1 / self.pace), partial(self.acts, self.channels))

    def acts(self, channel: int) -> None:
        """Act, after any lull and if this is still the same channel, and again later; if it may not, it waits for an
        event.
        """
        if (lull_ends := self.engine.weather.lull_ends()) > self.timeline.now:
            self.timeline.at(lull_ends, partial(self.acts, channel))
            return
        self.acts_again = False
        if self.phase is not Phase.ACTING or not self.is_connected():
            return
        if channel != self.channels:
            self.later()
        elif not self.is_leaving() and self.may_act():
            if len(self.client.unread) < SENDABLE:
                self.act()
                self.connection.arm()
            self.later()

    def may_act(self) -> bool:
        """Whether nothing forbids it."""
        return True

    def act(self) -> None:
        """Do something."""
