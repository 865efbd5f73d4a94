"""The clients that attack memory: some read no answers, some finish no bodies, most do both."""

from __future__ import annotations

from collections import deque
from functools import partial

from tests.frames import BODY, Event, frame, header_frame, method_frame
from tests.simulator.engine import Engine
from tests.simulator.invariants.attacks import ATTACKER_READ, LARGEST_BODY
from tests.simulator.joined.client import Client
from tests.simulator.person import Person
from tests.simulator.plan import ClientPlan
from tests.simulator.truth import Truth
from tests.simulator.users import EVE

BODIES = (2, 3, 4)
"""The channels on which bodies are begun; mandatory publishes go on the first channel."""
PIECE = 100_000


class Attacker(Person):
    """Publishes messages that no queue takes and does not read that they come back, and begins bodies. `returning` has
    the numbers of publishes that were read and not returned, `begun` the bytes of begun bodies by channel.
    """

    user = EVE
    is_attacking = True

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan) -> None:
        super().__init__(engine, truth, plan)
        self.published = 0
        self.returning: deque[int] = deque()
        self.begun: dict[int, int] = {}

    def joins(self, client: Client) -> None:
        client.most = ATTACKER_READ
        super().joins(client)

    def begin(self) -> None:
        self.lost()
        for channel in BODIES:
            self.client.send("channel.open", channel)

    def lost(self) -> None:
        self.returning.clear()
        self.begun.clear()

    def act(self) -> None:
        """Attack, or read some of the output."""
        match self.chance.choice(("publish", "publish", "begin", "begin", "finish", "listen", "go")):
            case "publish":
                self.publish_to_nobody(self.chance.choice([1, 10, 40]), self.chance.choice([0, 9000, 40_000]))
            case "begin":
                self.begin_body(self.chance.choice(BODIES), self.chance.randrange(5))
            case "finish" if self.begun:
                self.finish_body(self.chance.choice(sorted(self.begun)))
            case "listen" if self.client.deaf and not self.connection.is_cut():
                self.client.listen(self.chance.choice([1000, 300_000, 1 << 30]))
            case "go" if self.chance.random() < 0.1:
                self.leave()

    def publish_to_nobody(self, count: int, size: int) -> None:
        """Publish mandatory messages; their returns are not read."""
        self.client.deaf = True
        for _ in range(count):
            self.published += 1
            body = b"%d %d " % (self.plan.number, self.published) + bytes(size)
            when_read = partial(self.returning.append, self.published)
            self.client.publish(self.number, body, "", "nobody", when_read, mandatory=True)

    def begin_body(self, channel: int, pieces: int) -> None:
        """Announce a body if the last one is whole, and write pieces of it: all but one byte at most."""
        if channel not in self.begun:
            self.client.write(method_frame("basic.publish", channel, routing_key="nobody"))
            self.client.write(header_frame(channel, LARGEST_BODY, {}))
            self.begun[channel] = 0
        for _ in range(pieces):
            piece = min(PIECE, LARGEST_BODY - 1 - self.begun[channel])
            if piece:
                self.client.write(frame(BODY, channel, bytes(piece)))
                self.begun[channel] += piece

    def finish_body(self, channel: int) -> None:
        """Write the rest of a body."""
        self.begin_body(channel, LARGEST_BODY // PIECE + 1)
        self.client.write(frame(BODY, channel, b"x"))
        del self.begun[channel]

    def may_send(self, channel: int) -> bool:
        """Whether no body has been begun on a channel."""
        return channel not in self.begun

    def receive(self, event: Event) -> None:
        """Check that each publish comes back once, in order."""
        assert event.name == "basic.return", event
        number = int(event.body.split(b" ", 2)[1])
        assert number == self.returning.popleft(), f"{self.name} gets {number} back before others"

    def falls_silent(self) -> None:
        """Leave."""
        super().falls_silent()
        self.leave()
