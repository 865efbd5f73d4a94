"""Attacks on memory, as rules: returns that are not read, bodies that are begun and not finished.

The attackers are connections of one user that publishes nothing else. The memory they make an acceptor use is charged
to them, is bounded for each of them and for their user, and other clients do not notice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import rule

from acceptor.clients.pauses import BODIES, OUTPUT
from acceptor.core import AcceptorCore
from tests.flow.spent import Spent
from tests.flow.world import identity
from tests.frames import BODY, Event, frame, header_frame, method_frame
from tests.simulator.invariants.attacks import ATTACKER_READ, LARGEST_BODY, attackers_keep_to_their_bounds
from tests.simulator.joined.client import Client
from tests.simulator.users import EVE

ATTACKERS = 8
RETURNS = 1
"""The channel of mandatory publishes; bodies are begun on the others."""
CHANNELS = (2, 3, 4)
PIECE = 100_000
NUMBER = 0
"""The number of all attackers, in their messages."""
CLOSED_FOR = ("unfinished bodies", "no more can be")
TOLD_WHILE_STOPPED = ("connection.blocked", "connection.unblocked", "channel.flow")


@dataclass
class Attacker:
    """Mandatory publishes by number: those `published`, those `read`, and those returned. `begun` has the bytes of
    begun bodies, by channel.
    """

    client: Client
    published: int = 0
    read: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    begun: dict[int, int] = field(default_factory=dict)
    closed: bool = False

    def bring(self, channel: int, pieces: int) -> None:
        """Begin a body on a channel that has none, and write pieces of it, except the last byte."""
        if channel not in self.begun:
            self.client.write(method_frame("basic.publish", channel, routing_key="nobody"))
            self.client.write(header_frame(channel, LARGEST_BODY, {}))
            self.begun[channel] = 0
        for _ in range(pieces):
            begun = self.begun[channel]
            piece = min(PIECE, LARGEST_BODY - 1 - begun)
            if piece:
                name = b"" if begun else b"%d %d %d " % (NUMBER, channel, 0)
                self.client.write(frame(BODY, channel, name.ljust(piece, b"\0")))
                self.begun[channel] += piece

    def finish(self, channel: int) -> None:
        """Write the rest of a body."""
        self.bring(channel, LARGEST_BODY // PIECE + 1)
        self.client.write(frame(BODY, channel, b"x"))
        del self.begun[channel]

    def hear(self, event: Event) -> bool:
        """Check that an attacker receives only answers to its own actions."""
        if event.name == "basic.return":
            self.returned.append(identity(event.body)[2])
        elif event.name == "connection.close":
            assert event.code == 506 and any(why in event.text for why in CLOSED_FOR), event
            self.closed = True
        else:
            assert event.name in ("channel.open-ok", *TOLD_WHILE_STOPPED), event
        return True


class Attacks(Spent):
    """Some attackers read no answers, some finish no bodies, most do both."""

    def __init__(self) -> None:
        super().__init__()
        self.attackers: list[Attacker] = []

    def attacker(self, which: int) -> Attacker | None:
        """Return an attacker, or a new one; None while no client can log in."""
        self.attackers = [each for each in self.attackers if each.client.connection in self.node.clients]
        which %= ATTACKERS
        if which < len(self.attackers):
            return self.attackers[which]
        if not self.node.router_lives:
            return None
        running = [index for index, _ in self.node.running_acceptors()]
        client = self.node.connect(running[which % 3 % len(running)], user=EVE)
        client.most = ATTACKER_READ
        self.numbers[client.connection.id] = NUMBER
        attacker = Attacker(client)
        client.on_event = attacker.hear
        for channel in (RETURNS, *CHANNELS):
            client.send("channel.open", channel)
        self.attackers.append(attacker)
        return attacker

    @rule(which=st.integers(0, 50), count=st.sampled_from([1, 10, 40]), size=st.sampled_from([0, 9000, 40_000]))
    def publish_to_nobody(self, which: int, count: int, size: int) -> None:
        """Publish messages that no queue takes; their returns are not read."""
        attacker = self.attacker(which)
        if attacker is None:
            return
        attacker.client.deaf = True
        for _ in range(count):
            attacker.published += 1
            body = b"%d %d %d " % (NUMBER, RETURNS, attacker.published) + bytes(size)
            when_read = partial(attacker.read.append, attacker.published)
            attacker.client.publish(RETURNS, body, "", "nobody", when_read, mandatory=True)

    @rule(which=st.integers(0, 50), channel=st.sampled_from(CHANNELS), pieces=st.integers(0, 4))
    def begin_body(self, which: int, channel: int, pieces: int) -> None:
        """Announce a body if the last one is whole, and write pieces of it: all but one byte at most."""
        attacker = self.attacker(which)
        if attacker is not None:
            attacker.bring(channel, pieces)

    @rule(which=st.integers(0, 50), channel=st.sampled_from(CHANNELS))
    def finish_body(self, which: int, channel: int) -> None:
        """Finish a body."""
        attacker = self.attacker(which)
        if attacker is not None and channel in attacker.begun:
            attacker.finish(channel)

    @rule(which=st.integers(0, 50), reads=st.sampled_from([1, 5, 40]))
    def read_attacker(self, which: int, reads: int) -> None:
        """Have the acceptor read an attacker repeatedly, and write the output that causes."""
        attacker = self.attacker(which)
        for _ in range(reads if attacker is not None else 0):
            attacker.client.read()
            self.node.finish(attacker.client.acceptor)
            self.what_is_charged_is_what_is_kept(self.node.core(attacker.client.acceptor))

    @rule(which=st.integers(0, 50), most=st.sampled_from([1000, 300_000, 1 << 30]))
    def listen(self, which: int, most: int) -> None:
        """Have an attacker read some of its output."""
        attacker = self.attacker(which)
        if attacker is not None:
            attacker.client.listen(most)
            if attacker.closed:
                attacker.client.lose()

    @rule(which=st.integers(0, 50))
    def attacker_leaves(self, which: int) -> None:
        """Drop an attacker's connection."""
        attacker = self.attacker(which)
        if attacker is not None:
            attacker.client.lose()

    def attackers_end(self) -> None:
        """Drop some attackers. The others finish their bodies and read all output: each return has come, in order."""
        for which in range(0, len(self.attackers), 2):
            self.attackers[which].client.lose()
        for attacker in self.attackers:
            if attacker.client.connection in self.node.clients:
                for channel in list(attacker.begun):
                    attacker.finish(channel)
        for _ in range(100):
            self.node.settle(1)
            self.what_is_kept_is_bounded()
            for attacker in self.attackers:
                attacker.client.listen()
        for attacker in self.attackers:
            if attacker.client.connection in self.node.clients:
                assert attacker.closed or (not attacker.client.unread and attacker.returned == attacker.read)
                attacker.client.lose()
        self.attackers.clear()

    # Invariants

    def budgets_hold(self) -> None:
        """Check the budgets, and the charges of each acceptor."""
        super().budgets_hold()
        for _, life in self.node.running_acceptors():
            self.what_is_charged_is_what_is_kept(life.core)

    def what_is_charged_is_what_is_kept(self, core: AcceptorCore) -> None:
        """Check that charges are right and bounded, and that all other connections are read."""
        attackers_keep_to_their_bounds(self.node)
        for connection in core.state.connections.values():
            client = self.node.clients.get(connection)
            if client is not None and connection.user != EVE:
                assert not connection.pauses & (OUTPUT | BODIES)
                assert not client.untaken and not connection.kept.unfinished
        assert {connection.user for connection in core.budgets.unread.since} <= {EVE}
