"""The connections of clients: they come and go, beat, are cut off and hung up on, with one channel for each client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from acceptor.clients.connection_stage import OPEN
from penstock.limits.ladder import CLOSE_CONNECTION, HOLD_OFF
from tests.frames import HEARTBEAT, Event, frame
from tests.raw import JAVA
from tests.simulator.engine import NETWORK_SECONDS, Engine
from tests.simulator.joined.client import Client
from tests.simulator.plan import ClientPlan
from tests.simulator.weather import QUIET_SECONDS

AWAY_SECONDS, HELD_OFF_SECONDS = 0.05, 1.0
"""How long it takes to come back, and to try again if that is refused for a while."""
HASTY = 0.03
"""How many connections are dropped as soon as they are made."""
NOTICE_SECONDS = 4.0
"""How much later than two heartbeats a broker may notice that a client is silent."""
DEAF: tuple[dict[str, Any], ...] = (
    {}, JAVA, {"product": "py-amqp", "product_version": "5.4.0", "version": "5.4.0"},
    {"product": "AMQP 0.9.1 Client", "platform": "golang"},
)  # fmt: skip
"""What clients that ignore Channel.Flow say about themselves: an unknown one, one of a library that obeys, and two of
libraries whose sockets must not go unread.
"""
BEAT = frame(HEARTBEAT, 0, b"")


class Person(Protocol):
    """A client with one channel of a connection (tests/simulator/person.py)."""

    user: str
    number: int
    plan: ClientPlan
    is_hostile: bool
    is_attacking: bool

    @property
    def name(self) -> str: ...

    def shares(self, connection: ClientConnection) -> None: ...

    def joins(self, client: Client) -> None: ...

    def leaves(self) -> None: ...

    def note(self, event: Event) -> None: ...

    def handle(self, event: Event) -> None: ...

    def later(self) -> None: ...

    def is_silent(self) -> bool: ...


class ClientConnection:
    """The connection of one client, or of several that share it; the first one's plan says how it behaves. It comes
    back when it is lost, unless all of them are silent.
    """

    def __init__(self, engine: Engine, plan: ClientPlan, arrive: Callable[[ClientConnection], None]) -> None:
        self.engine = engine
        self.timeline = engine.timeline
        self.plan = plan
        self.arrive = arrive
        self.persons: list[Person] = []
        self.chance = engine.chance(f"connection {plan.number}")
        self.client: Client
        self.connected = self.closing = self.blocked = False
        self.held_off = False
        """Whether it was refused for a while, because queues had held it for too long."""

    @property
    def user(self) -> str:
        """Whose it is."""
        return self.persons[0].user

    @property
    def name(self) -> str:
        """What the story calls it."""
        return " and ".join(person.name for person in self.persons)

    @property
    def properties(self) -> dict[str, Any]:
        """What it says about itself: one that obeys Channel.Flow is a client that is known to."""
        return JAVA if self.plan.obeys else DEAF[self.plan.number % len(DEAF)]

    def is_connected(self) -> bool:
        """Whether there is a connection."""
        return self.connected and not self.client.socket.closed

    def is_silent(self) -> bool:
        """Whether all its clients begin nothing new."""
        return all(person.is_silent() for person in self.persons)

    # Coming and going

    def connect(self, client: Client) -> None:
        """Log in, and open the channels."""
        self.client = client
        self.connected, self.closing, self.blocked, self.held_off = True, False, False, False
        client.on_event = partial(self.on_event, client)
        client.socket.on_close = partial(self.timeline.after, NETWORK_SECONDS, partial(self.is_hung_up_on, client))
        client.on_unheard_close = partial(self.is_ousted_unheard, client)
        client.log_in(heartbeat=self.plan.heartbeat)
        if self.plan.heartbeat:
            self.timeline.after(self.plan.heartbeat / 2, partial(self.beat, client))
        for person in self.persons:
            person.joins(client)
        if self.chance.random() < HASTY:
            self.timeline.after(self.chance.expovariate(1 / NETWORK_SECONDS), partial(self.goes_at_once, client))

    def goes_at_once(self, client: Client) -> None:
        """Drop the connection, perhaps in the middle of the handshake."""
        if client is self.client:
            self.leave()

    def is_cut_off(self) -> None:
        """Notice that the connection is gone; come back unless the play ends."""
        self.lost()
        if not self.is_silent():
            reachable = max(self.engine.cuts.get(self.plan.number, 0.0), self.timeline.now)
            if self.is_expelled():  # it would be refused again and again
                reachable = max(reachable, self.engine.weather.lull_ends())
            away = HELD_OFF_SECONDS if self.held_off else AWAY_SECONDS
            self.timeline.at(reachable + away, partial(self.arrive, self))

    def lost(self) -> None:
        """All clients lose their unfinished requests."""
        for person in self.persons:
            person.leaves()

    def close(self) -> None:
        """Close the connection, and ignore everything still on its way to the client."""
        self.engine.narrate(f"{self.name}: connection closed")
        self.client.send("connection.close", code=200)
        self.closing = True
        self.lost()

    def leave(self) -> None:
        """Drop the connection, if there is one, without a word."""
        if self.is_connected():
            self.engine.narrate(f"{self.name}: connection dropped")
            self.client.lose()
            self.client.on_event = lambda event: True  # whatever it has received besides is not read any more
            self.is_cut_off()

    def beat(self, client: Client) -> None:
        """Send heartbeats as long as this connection lives."""
        if client is self.client and self.is_connected():
            client.write(BEAT)
            self.timeline.after(self.plan.heartbeat / 2, partial(self.beat, client))
            self.arm()

    def arm(self) -> None:
        """Have the acceptor read the bytes written."""
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
            ousted = self.client.deaf and self.may_be_ousted()  # it did not hear why
            deadline = None if client.connection.stay.opened is not None else client.connection.deadline
            silent_for_long = silent > patience or (deadline is not None and self.timeline.now >= deadline)
            ended = self.its_acceptor_ends(client)
            known = self.closing or silent_for_long or ousted or ended or self.persons[0].is_hostile
            assert known, f"{self.name} is hung up on after {silent:g} s"
            self.engine.narrate(f"{self.name}: hung up on by the broker")
            self.is_cut_off()

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

    # Events

    def on_event(self, client: Client, event: Event) -> bool:
        """Process an event, unless it is of an earlier connection."""
        if client is self.client:
            first = self.persons[0]
            if first.is_hostile or event.channel != 0:
                person = next((each for each in self.persons if each.number == event.channel), first)
                person.handle(event)
            else:
                first.note(event)
                self.handle(event)
        return True

    def handle(self, event: Event) -> None:
        """Process an event of the connection itself."""
        match event.name:
            case "connection.blocked" | "connection.unblocked":
                self.blocked = event.name == "connection.blocked"
                for person in self.persons:
                    person.later()
            case "connection.close" if not self.closing:
                self.is_ousted(event)
            case _:
                pass  # the handshake, or the socket is closed next

    def is_expelled(self) -> bool:
        """Whether its user may have been deleted."""
        return self.persons[0].is_attacking and self.engine.plan.expels

    def its_acceptor_ends(self, client: Client) -> bool:
        """Whether the acceptor of a connection ends in order."""
        return client.acceptor in self.engine.node.closed

    def may_be_ousted(self) -> bool:
        """Whether the broker may close the connection."""
        plan = self.engine.plan
        if self.its_acceptor_ends(self.client):
            return True
        return bool(plan.bounds.last_resort) or self.is_expelled() or plan.reaches(CLOSE_CONNECTION)

    def is_ousted_unheard(self, client: Client) -> None:
        """The broker closes a connection that is cut off, or whose client reads nothing: others are given at once what
        that has.
        """
        if client is self.client and not self.closing and self.may_be_ousted():
            self.engine.narrate(f"{self.name}: closed by the broker, and does not hear of it")
            self.closing = True
            self.lost()

    def is_ousted(self, event: Event) -> None:
        """The broker closes the connection: no more can be kept for it or its user, it was held for too long, the user
        is gone, or its acceptor ends.
        """
        attacks = self.persons[0].is_attacking
        reasons = ("no more can be", "unfinished bodies") if attacks else ("no more can be",)
        last_resort = self.engine.plan.bounds.last_resort
        known = event.code == 506 and any(reason in event.text for reason in reasons)
        full = known and last_resort and (attacks or last_resort != "pause")
        expelled = self.is_expelled() and event.code in (320, 403, 530)
        held = event.code == 506 and "; held for" in event.text and self.engine.plan.reaches(CLOSE_CONNECTION)
        ended = event.code == 320 and "'shutdown'" in event.text and self.its_acceptor_ends(self.client)
        self.held_off = event.code == 530 and "held off" in event.text and self.engine.plan.reaches(HOLD_OFF)
        assert full or expelled or held or ended or self.held_off, f"{self.name} is refused: {event}"
        self.engine.narrate(f"{self.name}: closed by the broker, {event.text}")
        self.closing = True
        self.lost()
        self.client.send("connection.close-ok")


def connections_of(
    engine: Engine, persons: Sequence[Person], arrive: Callable[[ClientConnection], None]
) -> dict[int, ClientConnection]:
    """Return the connections of clients, by the numbers of their first clients."""
    connections: dict[int, ClientConnection] = {}
    for person in persons:
        number = person.plan.guest_of if person.plan.guest_of in connections else person.plan.number
        connection = connections.setdefault(number, ClientConnection(engine, person.plan, arrive))
        person.shares(connection)
    return connections
