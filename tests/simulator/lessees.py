"""The clients that consume with leases."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from tests.frames import Event
from tests.simulator.consumers import Consumer
from tests.simulator.engine import Engine
from tests.simulator.person import Phase
from tests.simulator.plan import DEAD, ClientPlan
from tests.simulator.truth import At, Id, Truth

LEASE_SECONDS = 30
"""For how long a lease outlives its consumer."""
LATE_SECONDS = 20.0
"""How much later than its acceptor reads the request a lease may be read again: the processes on the way may hang."""


class Stage(Enum):
    """What a client does about its lease."""

    FILLING = "consumes under a new name"
    LEAVING = "cancels its consumer"
    READING = "consumes under the name again"
    ENDING = "ends the lease"


class Lessee(Consumer):
    """Consumes from one queue under a lease, loses its consumer or cancels it, and reads the lease again, in which all
    must be that it had, in order. In the end it gives the lease up.
    """

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan) -> None:
        super().__init__(engine, truth, plan)
        fit = [queue.name for queue in engine.plan.queues if "x-max-priority" not in queue.arguments]
        self.queues = [name for name in fit if name != DEAD]
        self.no_ack = self.transacts = False
        self.shared, self.moody, self.refuses = 0, 0.0, 0.0
        self.stage = Stage.FILLING
        self.leases = 0
        self.queue = ""
        self.missing: list[At] = []
        """The messages of the lease that have not come again yet."""
        self.left_at = 0.0

    def begin(self) -> None:
        """Read the lease of the last channel again, if there is any; else begin another."""
        self.unacked = {}
        self.client.send("basic.qos", self.number, prefetch_count=self.prefetch)
        if self.missing:
            self.read_again()
        elif self.queues:
            self.fill()

    def fill(self) -> None:
        """Begin a lease."""
        self.leases += 1
        self.stage = Stage.FILLING
        self.queue = self.chance.choice(self.queues)
        self.consume_leased({"x-lease-expires": 1000 * LEASE_SECONDS})

    def read_again(self) -> None:
        """Consume under the name of the lease once more."""
        self.stage = Stage.READING
        self.consume_leased({"x-lease-expires": 1000 * LEASE_SECONDS}, self.may_be_late)

    def may_be_late(self) -> None:
        """The acceptor, which may have paused the connection, has read the request. The lease may have expired by the
        time its shard gets to it.
        """
        if self.timeline.now + LATE_SECONDS > self.left_at + LEASE_SECONDS:
            self.missing.clear()

    def end_lease(self) -> None:
        """Have the messages of the lease return to the queue."""
        self.stage = Stage.ENDING
        self.consume_leased({"x-lease-end": "requeue"})

    def consume_leased(self, arguments: dict[str, int | str], when_read: Callable[[], None] | None = None) -> None:
        """Consume under the name of the lease."""
        self.consume_by(self.queue, {"x-lease": f"{self.plan.number}-{self.leases}", **arguments}, when_read)

    def may_act(self) -> bool:
        return self.stage in (Stage.FILLING, Stage.READING) and bool(self.queues)

    def act(self) -> None:
        """Settle something, lose the connection, or cancel the consumer."""
        chance = self.chance.random()
        if chance < 0.02:
            self.go()
        elif chance < 0.06:
            self.cancel()
        elif self.unacked and chance > 0.5:
            self.settle()

    def cancel(self) -> None:
        """Cancel the consumer; then nothing is on its way any more."""
        self.stage = Stage.LEAVING
        super().cancel()

    def receive(self, event: Event) -> None:
        match event.name:
            case "basic.cancel-ok" if self.stage is Stage.LEAVING:
                self.leave_to_lease()
                ends = self.is_silent() or self.chance.random() < 0.5
                self.end_lease() if ends else self.read_again()
            case "basic.cancel" if self.stage in (Stage.FILLING, Stage.READING):
                self.cancel()
            case "basic.consume-ok" if self.stage is Stage.ENDING:
                self.has_ended()
            case _:
                super().receive(event)

    def delivered(self, queue: str, event: Event, consumer: str) -> None:
        """Keep a delivery. Those of a lease come again in the order of the queue; a message among them may have come or
        been acked without the other side knowing.
        """
        super().delivered(queue, event, consumer)
        at = self.unacked[event.delivery_tag]
        if at in self.missing:
            before = [id for _, id in self.missing if id < at[1] and self.follows(at[1], id)]
            assert not before or self.is_uncertain(), f"{self.name} gets {at} before {before}"
            self.missing.remove(at)

    def follows(self, id: Id, before: Id) -> bool:
        """Whether a message was published after another one of the same client to a queue that keeps their order."""
        one, other = self.truth.messages[id], self.truth.messages[before]
        one_channel = id.client == before.client and one.connection == other.connection
        straight = not one.delayed and not other.delayed
        return one_channel and straight and self.engine.plan.keeps_order(self.truth.queues[self.queue])

    def keeps_to_prefetch(self) -> None:
        """Check the prefetch of its first consumer: a lease comes as a whole."""
        if self.leases == self.consumers == 1:
            super().keeps_to_prefetch()

    def is_uncertain(self) -> bool:
        """Whether the lease may be lost with a process."""
        return self.truth.a_process_died_since(0.0)

    def leave_to_lease(self) -> None:
        """Leave the unacked messages to the lease."""
        self.missing += self.unacked.values()
        self.left_at = self.timeline.now
        self.truth.given_back(list(self.unacked.values()))
        self.unacked.clear()

    def lost(self) -> None:
        self.truth.departed(self.timeline.now)
        self.leave_to_lease()
        if self.stage is Stage.ENDING:
            self.missing.clear()

    def has_ended(self) -> None:
        """The lease is gone: begin another, unless the play ends."""
        self.leave_to_lease()
        self.missing.clear()
        if self.is_silent():
            self.leave()
        else:
            self.fill()

    def falls_silent(self) -> None:
        """End the lease, then drop the connection; at once if that may be paused as a last resort, for then nobody
        reads the cancel, and queues wait for what it has unacked.
        """
        self.phase = Phase.SILENT
        may_ask = self.channel() is not None and self.engine.plan.bounds.last_resort != "pause"
        if may_ask and self.stage in (Stage.FILLING, Stage.READING) and self.queues:
            self.cancel()
        elif not may_ask or self.stage is not Stage.LEAVING:
            self.leave()

    def has_all(self) -> bool:
        """Whether all that is known to be in the lease has come again, if the broker has read that it is wanted."""
        return not self.missing or bool(self.client.unread) or self.is_uncertain()
