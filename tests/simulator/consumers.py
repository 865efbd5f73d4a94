"""The clients that consume."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from tests.frames import Event
from tests.simulator.engine import Engine
from tests.simulator.person import Phase
from tests.simulator.plan import CONSUMER_TIMEOUT, DEAD, TRANSACTION_TIMEOUT, ClientPlan
from tests.simulator.transactions import Transacting
from tests.simulator.truth import At, Truth, grave, identity


class Recovery(Enum):
    """Whether a client has asked for everything unacked to be delivered again (basic.recover), until it is answered."""

    NONE = "not asked for"
    SENT = "asked for"
    READ = "read by the acceptor"


class Outcome(Enum):
    """How deliveries are settled."""

    ACKED = "acked"
    REQUEUED = "requeued"
    REJECTED = "rejected for good"


class Settlement(NamedTuple):
    """Deliveries that were settled alike, by tag."""

    how: Outcome
    places: dict[int, At]


class Consumer(Transacting):
    """Consumes from a queue, and settles as is its habit: slowly, or with refusals, in transactions, or not at all. Now
    and then it reads nothing for a while, has everything delivered again, or cancels its consumer and consumes from
    another queue.
    """

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan) -> None:
        super().__init__(engine, truth, plan)
        self.queues = engine.plan.sources(plan)
        self.prefetch = self.chance.choice([0, 1, 5, 50])
        self.shared = self.chance.choice([0, 0, 0, 1, 4])
        """The prefetch of all its consumers together."""
        self.no_ack = self.chance.random() < 0.15
        self.refuses = self.chance.choice([0.0, 0.0, 0.1, 0.5])
        self.slow = self.chance.choice([0.0, 0.0, 0.3])
        self.moody = self.chance.choice([0.0, 0.0, 0.05])
        self.consumers = 0
        self.queue_of: dict[str, str] = {}
        self.unacked: dict[int, At] = {}
        self.recovery = Recovery.NONE
        self.transacts = self.chance.random() < 0.2
        self.settlements: list[Settlement] = []
        self.commits: deque[list[tuple[Settlement, Callable[[], None]]]] = deque()
        """Settlements in commits without an answer yet, each with its effect."""

    def begin(self) -> None:
        """Consume from a queue."""
        self.unacked = {}
        self.recovery = Recovery.NONE
        self.begin_transactions()
        self.client.send("basic.qos", self.number, prefetch_count=self.prefetch)
        if self.shared:
            self.client.send("basic.qos", self.number, prefetch_count=self.shared, global_=True)
        several = self.plan.source is None  # a consumer that has nothing yet keeps a ring from being a deadlock
        for queue in self.chance.choices(self.queues, k=self.chance.choice([1, 1, 2, 3]) if several else 1):
            self.consume(queue)

    def begin_transactions(self) -> None:
        """Select transactions, if it settles in these."""
        self.commits.clear()
        if self.transacts:
            self.client.send("tx.select", self.number)

    def consume(self, queue: str) -> None:
        """Consume from a queue."""
        self.consume_by(queue, {"x-priority": self.chance.choice([0, 0, 3])})

    def consume_by(
        self, queue: str, arguments: dict[str, int | str], when_read: Callable[[], None] | None = None
    ) -> None:
        """Consume from a queue under a new tag, by some arguments."""
        self.consumers += 1
        tag = f"{queue}-{self.consumers}"
        self.queue_of[tag] = queue
        how: dict[str, Any] = {"consumer_tag": tag, "no_ack": self.no_ack, "arguments": arguments}
        self.client.send("basic.consume", self.number, when_read, queue=queue, **how)
        if self.no_ack:
            self.truth.may_lose(queue)

    def receive(self, event: Event) -> None:
        match event.name:
            case "basic.deliver":
                self.delivered(self.queue_of[event.consumer_tag], event, event.consumer_tag)
            case "basic.cancel-ok":
                self.consume(self.chance.choice(self.queues))
            case "basic.recover-ok":
                self.recovery = Recovery.NONE
            case "tx.commit-ok":
                for _, effect in self.commits.popleft():
                    effect()
            case "channel.close":
                plan, text = self.engine.plan, event.text
                late = "acknowledgement" in text and plan.outlasts(CONSUMER_TIMEOUT)
                late |= "open for longer" in text and plan.outlasts(TRANSACTION_TIMEOUT)
                assert late, f"{self.name} is refused: {event}"
                self.opens_again()

    def delivered(self, queue: str, event: Event, consumer: str) -> None:
        """Keep a delivery until it is settled. The order of deliveries is that of one consumer."""
        at = grave(event.properties["headers"]["x-death"][0]["queue"]) if queue == DEAD else queue, identity(event.body)
        in_order = f"{self.plan.number}/{self.channels}/{consumer}" if consumer else ""
        self.truth.delivered(at, event.redelivered, self.timeline.now, in_order)
        if self.no_ack:
            self.truth.acked([at])
            return
        if self.recovery is Recovery.READ:
            self.truth.given_back([at])  # it was on its way
            return
        self.unacked[event.delivery_tag] = at
        if consumer:
            self.keeps_to_prefetch()

    def keeps_to_prefetch(self) -> None:
        """Check that no more is unacked than its consumers may have together, or a single one by itself."""
        limits = [limit for limit in (self.shared, self.prefetch if self.consumers == 1 else 0) if limit]
        if not limits or len(self.unacked) <= min(limits):
            return
        unacked = sum(not self.truth.may_be_forgotten(id) for _, id in self.unacked.values())
        assert unacked <= min(limits), f"{self.name} has {unacked} of {min(limits)}"

    def may_act(self) -> bool:
        return (
            bool(self.unacked or self.settlements or self.client.deaf or self.moody) and self.recovery is Recovery.NONE
        )

    def act(self) -> None:
        """Settle something, or change its mind."""
        if self.client.deaf:
            if not self.connection.is_cut():
                self.client.listen(self.chance.choice([1000, 1 << 30]))
        elif self.chance.random() < 0.005:
            self.go()
        elif self.chance.random() < self.moody:
            self.change_mind()
        elif self.settlements and self.chance.random() < 0.3:
            self.end_transaction()
        elif self.unacked and self.chance.random() >= self.slow:
            self.settle()

    def change_mind(self) -> None:
        """Read nothing for a while, have everything delivered again, or cancel the present consumer."""
        match self.chance.choice(("deaf", "recover", "cancel")):
            case "deaf":
                self.client.deaf = True
            case "recover" if not self.no_ack:
                self.recovery = Recovery.SENT
                self.client.send("basic.recover", self.number, self.gives_all_back, requeue=True)
            case _:
                self.cancel()

    def cancel(self) -> None:
        """Cancel the present consumer."""
        self.client.send("basic.cancel", self.number, consumer_tag=next(reversed(self.queue_of)))

    def gives_all_back(self) -> None:
        """The acceptor has read that everything unacked is to be delivered again."""
        self.recovery = Recovery.READ
        self.truth.given_back(list(self.unacked.values()))
        self.unacked.clear()

    def settle(self) -> None:
        """Ack, requeue or reject some deliveries."""
        tags = list(self.unacked)
        tag = self.chance.choice(tags)
        multiple = self.chance.random() < 0.7
        some = [each for each in tags if each <= tag] if multiple else [tag]
        gone = {each: self.unacked.pop(each) for each in some}
        how = Outcome.ACKED
        if self.chance.random() < self.refuses:
            how = self.chance.choices((Outcome.REQUEUED, Outcome.REJECTED), (7, 3))[0]
        settlement = Settlement(how, gone)
        when_read = None if self.transacts else self.takes_effect(settlement)
        if how is Outcome.ACKED:
            self.client.send("basic.ack", self.number, when_read, delivery_tag=tag, multiple=multiple)
        else:
            requeue = how is Outcome.REQUEUED
            self.client.send("basic.nack", self.number, when_read, delivery_tag=tag, multiple=multiple, requeue=requeue)
        if self.transacts:
            self.settlements.append(settlement)

    def takes_effect(self, settlement: Settlement) -> Callable[[], None]:
        """Record a settlement that is final; return the function that records its effect."""
        places = list(settlement.places.values())
        match settlement.how:
            case Outcome.ACKED:
                self.truth.acked(places)
            case Outcome.REJECTED:
                self.truth.rejected(places)
            case Outcome.REQUEUED:
                self.truth.given_back(places)
                return lambda: None
        return partial(self.truth.gone, places)

    def commit(self) -> None:
        super().commit()
        settlements, self.settlements = self.settlements, []
        self.commits.append([(settlement, self.takes_effect(settlement)) for settlement in settlements])

    def roll_back(self) -> None:
        """Record that the settled messages are unacked again."""
        super().roll_back()
        for settlement in self.settlements:
            self.unacked |= settlement.places
        self.unacked = dict(sorted(self.unacked.items()))
        self.settlements = []

    def lost(self) -> None:
        self.truth.departed(self.timeline.now)
        Consumer.roll_back(self)
        self.truth.given_back(list(self.unacked.values()))
        self.unacked.clear()

    def falls_silent(self) -> None:
        """Drop the connection, so that what is unacked returns to its queue."""
        super().falls_silent()
        self.leave()


class Getter(Consumer):
    """Gets messages one by one."""

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan) -> None:
        super().__init__(engine, truth, plan)
        self.moody = 0.0
        self.gets: deque[str] = deque()

    def begin(self) -> None:
        """Get nothing yet."""
        self.unacked = {}
        self.gets.clear()
        self.begin_transactions()

    def may_act(self) -> bool:
        return True

    def act(self) -> None:
        """Get a message, or settle some."""
        if self.chance.random() < 0.5 and len(self.gets) < 5:
            self.gets.append(self.chance.choice(self.queues))
            self.client.send("basic.get", self.number, queue=self.gets[-1], no_ack=self.no_ack)
            if self.no_ack:
                self.truth.may_lose(self.gets[-1])
        else:
            super().act()

    def receive(self, event: Event) -> None:
        match event.name:
            case "basic.get-ok":
                self.delivered(self.gets.popleft(), event, consumer="")
            case "basic.get-empty":
                self.gets.popleft()
            case _:
                super().receive(event)


class Drainer(Consumer):
    """Consumes from all queues and acks everything, until there is nothing left."""

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan) -> None:
        super().__init__(engine, truth, plan)
        self.prefetch, self.shared, self.pace, self.no_ack = 50, 0, 0.005, False
        self.transacts = False

    def begin(self) -> None:
        """Consume from all queues."""
        self.client.send("basic.qos", self.number, prefetch_count=self.prefetch)
        for queue in self.queues:
            self.consume(queue)

    def may_act(self) -> bool:
        return bool(self.unacked)

    def act(self) -> None:
        """Ack everything."""
        tag = max(self.unacked)
        gone = list(self.unacked.values())
        self.unacked.clear()
        self.truth.acked(gone)
        when_read = partial(self.truth.gone, gone)
        self.client.send("basic.ack", self.number, when_read, delivery_tag=tag, multiple=True)

    def unanswered(self) -> int:
        return super().unanswered() + len(self.unacked) + (self.phase is Phase.ARRIVING)
