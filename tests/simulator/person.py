"""A client of a world: a small state machine with a connection, a channel and habits of its own.

A client acts at times that it draws, and reacts to what it receives. One that obeys publishes nothing while its channel
is stopped or its connection blocked. When its connection or its acceptor is gone, it connects again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import Enum
from functools import partial
from random import Random
from typing import Any

from acceptor.clients.channel_state import ChannelState
from acceptor.clients.connection_stage import OPEN
from tests.frames import HEARTBEAT, Event, frame
from tests.raw import JAVA
from tests.simulator.engine import NETWORK_SECONDS, QUIET_SECONDS, Engine
from tests.simulator.joined.client import Client
from tests.simulator.plan import ClientPlan
from tests.simulator.truth import Truth

CHANNEL = 1
AWAY_SECONDS = 0.05
NOTICE_SECONDS = 4.0
"""How much later than two heartbeats a broker may notice that a client is silent."""
SENDABLE = 50
"""Writes that the kernel's buffer takes while the acceptor reads nothing."""
DEAF: tuple[dict[str, Any], ...] = (
    {}, JAVA, {"product": "py-amqp", "product_version": "5.4.0", "version": "5.4.0"},
    {"product": "AMQP 0.9.1 Client", "platform": "golang"},
)  # fmt: skip
"""What clients that ignore Channel.Flow say about themselves: an unknown one, one of a library that obeys, and two of
libraries whose sockets must not go unread.
"""
BEAT = frame(HEARTBEAT, 0, b"")


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
        self.connected = self.closing = False
        self.flows = True
        self.blocked = False
        self.acts_again = False
        self.connections = 0
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
    def properties(self) -> dict[str, Any]:
        """What it says about itself: one that obeys Channel.Flow is a client that is known to."""
        return JAVA if self.plan.obeys else DEAF[self.plan.number % len(DEAF)]

    # Coming and going

    def connect(self, client: Client) -> None:
        """Log in, and open a channel."""
        self.client = client
        self.truth.connections[client.connection.id] = self.plan.number
        self.connected, self.closing = True, False
        self.phase, self.blocked = Phase.ARRIVING, False
        client.on_event = partial(self.on_event, client)
        client.socket.on_close = partial(self.timeline.after, NETWORK_SECONDS, partial(self.is_hung_up_on, client))
        client.reads_contents = not self.is_hostile
        client.log_in(heartbeat=self.plan.heartbeat)
        if self.plan.heartbeat:
            self.timeline.after(self.plan.heartbeat / 2, partial(self.beat, client))
        self.open_channel()

    def open_channel(self) -> None:
        """Open the channel, the first time or again."""
        self.connections += 1
        self.flows = True
        if self.phase is not Phase.SILENT:
            self.phase = Phase.ARRIVING
        self.client.send("channel.open", CHANNEL)
        self.begin()

    def begin(self) -> None:
        """Say what comes first on the channel."""

    def is_connected(self) -> bool:
        """Whether it has a connection."""
        return self.connected and not self.client.socket.closed

    def channel(self) -> ChannelState | None:
        """Return the acceptor's side of its channel, unless that is being closed, or it does not hear everything."""
        if not self.is_connected() or self.closing or self.client.deaf:
            return None
        return self.client.connection.channels.get(CHANNEL)

    def is_cut_off(self) -> None:
        """Notice that the connection is gone; come back unless the play ends."""
        self.lost()
        if self.phase is not Phase.SILENT:
            self.phase = Phase.GONE
            reachable = max(self.engine.cuts.get(self.plan.number, 0.0), self.timeline.now)
            self.timeline.at(reachable + AWAY_SECONDS, partial(self.arrive, self))

    def go(self) -> None:
        """Close the channel or the connection, or drop the connection without a word."""
        how = self.chance.choice([self.leave, self.close_connection, self.close_channel])
        how()

    def close_connection(self) -> None:
        """Close the connection; what is on its way to this client is ignored from now on."""
        self.engine.narrate(f"{self.name} closes its connection")
        self.client.send("connection.close", code=200)
        self.closing = True
        self.lost()

    def close_channel(self) -> None:
        """Close the channel; it is opened again once that is answered."""
        self.engine.narrate(f"{self.name} closes its channel")
        self.client.send("channel.close", CHANNEL, code=200)
        self.closing = True
        self.lost()

    def closed_channel(self) -> None:
        """Open the channel again, unless the play ends."""
        self.closing = False
        if self.phase is not Phase.SILENT:
            self.open_channel()

    def beat(self, client: Client) -> None:
        """Send heartbeats as long as this connection lives."""
        if client is self.client and self.is_connected():
            client.write(BEAT)
            self.timeline.after(self.plan.heartbeat / 2, partial(self.beat, client))
            self.engine.arm((self.engine.reads[self.plan.number],))

    def is_hung_up_on(self, client: Client) -> None:
        """The broker has closed the socket of a connection: in order, or because it heard nothing for too long. While
        the client is cut off it does not notice.
        """
        if client.connection not in client.node.clients:
            return  # its acceptor is gone, or it has closed the socket itself
        client.lose()
        if client is self.client:
            silent = self.timeline.now - client.connection.last_received
            patience = 2 * self.plan.heartbeat or self.engine.node.settings.amqp.handshake_timeout
            ousted = self.client.deaf and self.engine.plan.bounds.last_resort  # it did not hear why
            known = self.closing or silent > patience or ousted or self.is_hostile
            assert known, f"{self.name} is hung up on after {silent:g} s"
            self.engine.narrate(f"{self.name} is hung up on")
            self.is_cut_off()

    def leave(self) -> None:
        """Drop the connection, if there is one, without a word."""
        if self.is_connected():
            self.engine.narrate(f"{self.name} drops its connection")
            self.client.lose()
            self.is_cut_off()

    def lost(self) -> None:
        """Record what was under way on the connection that is gone."""

    def falls_silent(self) -> None:
        """Begin nothing new."""
        self.phase = Phase.SILENT

    def unanswered(self) -> int:
        """Return how many answers it still waits for while it is connected."""
        return int(self.closing)

    def opens_again(self) -> None:
        """The broker has closed the channel: answer, and open it again."""
        self.lost()
        self.client.send("channel.close-ok", CHANNEL)
        self.open_channel()

    # Cut off from the network

    def is_cut(self) -> bool:
        """Whether no byte passes between it and its acceptor."""
        return self.engine.is_cut(self.plan.number)

    def cut(self) -> None:
        """Receive nothing any more."""
        if self.is_connected():
            self.client.deaf = True

    def heal(self) -> None:
        """Receive the backlog, if the connection still exists: the broker hangs up on a client that has agreed to
        heartbeats and is silent for two of them (AMQP 0-9-1, 4.2.7).
        """
        if self.is_connected() and not self.is_cut():
            connection = self.client.connection
            silent = self.timeline.now - connection.last_received
            agreed = self.plan.heartbeat and connection.stage is OPEN and not connection.pauses
            notice = NOTICE_SECONDS if self.engine.plan.lull is None else NOTICE_SECONDS + QUIET_SECONDS
            noticed = not agreed or silent < 2 * self.plan.heartbeat + notice
            assert noticed, f"{self.name} has been silent for {silent:g} s, and nobody has noticed"
            self.client.listen()

    # Actions and events

    def on_event(self, client: Client, event: Event) -> bool:
        """Process an event of a connection, unless it was of an earlier one."""
        if client is not self.client:
            return True
        words = f"{self.timeline.now:.9f} {event.name} {event.channel} {event.arguments} "
        self.digest.update(words.encode() + event.body)
        match event.name:
            case "channel.close-ok":
                self.closed_channel()
            case "connection.close-ok":
                pass  # the socket is closed next
            case "connection.blocked" | "connection.unblocked":
                self.blocked = event.name == "connection.blocked"
                self.later()
            case "channel.close" if self.closing:
                self.client.send("channel.close-ok", CHANNEL)
            case _ if self.closing:
                pass  # it was on its way
            case "channel.open-ok":
                if self.phase is Phase.ARRIVING:
                    self.phase = Phase.ACTING
                self.later()
            case "channel.flow" if event.channel != CHANNEL:
                self.client.send("channel.flow-ok", event.channel, active=event.active)
            case "channel.flow":
                assert self.flows != event.active, "a flow that says what the client knows"
                self.flows = event.active
                self.client.send("channel.flow-ok", CHANNEL, active=event.active)
                self.later()
            case "connection.close":
                self.is_ousted(event)
            case _ if event.channel == 0:
                pass  # the handshake
            case _:
                self.receive(event)
                self.later()
        return True

    def is_ousted(self, event: Event) -> None:
        """The broker closes the connection: no more can be kept for it, or for its user."""
        reasons = ("no more can be", "unfinished bodies") if self.is_attacking else ("no more can be",)
        last_resort = self.engine.plan.bounds.last_resort
        allowed = self.is_attacking or last_resort in ("close", "nack")
        known = event.code == 506 and any(reason in event.text for reason in reasons)
        assert last_resort and allowed and known, f"{self.name} is refused: {event}"
        self.engine.narrate(f"{self.name} is closed: {event.text}")
        self.closing = True
        self.lost()
        self.client.send("connection.close-ok")

    def receive(self, event: Event) -> None:
        """Process an event of the channel."""

    def later(self) -> None:
        """Act again after a while."""
        if not self.acts_again and self.phase is Phase.ACTING:
            self.acts_again = True
            self.timeline.after(self.chance.expovariate(1 / self.pace), partial(self.acts, self.connections))

    def acts(self, connection: int) -> None:
        """Act, after any lull and if this is still the same channel, and again later; if it may not, it waits for an
        event.
        """
        if (lull_ends := self.engine.lull_ends()) > self.timeline.now:
            self.timeline.at(lull_ends, partial(self.acts, connection))
            return
        self.acts_again = False
        if self.phase is not Phase.ACTING or not self.is_connected():
            return
        if connection != self.connections:
            self.later()
        elif not self.closing and self.may_act():
            if len(self.client.unread) < SENDABLE:
                self.act()
                self.engine.arm((self.engine.reads[self.plan.number],))
            self.later()

    def may_act(self) -> bool:
        """Whether nothing forbids it."""
        return True

    def act(self) -> None:
        """Do something."""
