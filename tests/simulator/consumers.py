"""The clients that consume."""

from __future__ import annotations

from collections import deque
from functools import partial

from tests.frames import Event
from tests.simulator.engine import Engine
from tests.simulator.person import CHANNEL, Arrive, Person
from tests.simulator.plan import CONSUMER_TIMEOUT, DEAD, ClientPlan
from tests.simulator.truth import At, Truth, grave, identity


class Consumer(Person):
    """Consumes from a queue, and settles as is its habit: slowly, or with refusals, or not at all. Now and then it
    reads nothing for a while, or cancels its consumer and consumes from another queue.
    """

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan, arrive: Arrive) -> None:
        super().__init__(engine, truth, plan, arrive)
        self.queues = [queue.name for queue in engine.plan.queues]
        self.prefetch = self.chance.choice([0, 1, 5, 50])
        self.no_ack = self.chance.random() < 0.15
        self.refuses = self.chance.choice([0.0, 0.0, 0.1, 0.5])
        self.slow = self.chance.choice([0.0, 0.0, 0.3])
        self.moody = self.chance.choice([0.0, 0.0, 0.05])
        self.consumers = 0
        self.queue_of: dict[str, str] = {}
        self.unacked: dict[int, At] = {}

    def begin(self) -> None:
        """Consume from a queue."""
        self.unacked = {}
        self.client.send("basic.qos", CHANNEL, prefetch_count=self.prefetch)
        self.consume(self.chance.choice(self.queues))

    def consume(self, queue: str) -> None:
        """Consume from a queue under a new tag."""
        self.consumers += 1
        tag = f"{queue}-{self.consumers}"
        self.queue_of[tag] = queue
        self.client.send("basic.consume", CHANNEL, queue=queue, consumer_tag=tag, no_ack=self.no_ack)
        if self.no_ack:
            self.truth.may_lose(queue)

    def receive(self, event: Event) -> None:
        match event.name:
            case "basic.deliver":
                self.delivered(self.queue_of[event.consumer_tag], event, event.consumer_tag)
            case "basic.cancel-ok":
                self.consume(self.chance.choice(self.queues))
            case "channel.close":
                late = "acknowledgement" in event.text and self.engine.plan.outlasts(CONSUMER_TIMEOUT)
                assert late, f"{self.name} is refused: {event}"
                self.opens_again()

    def delivered(self, queue: str, event: Event, consumer: str) -> None:
        """Keep a delivery until it is settled. The order of deliveries is that of one consumer."""
        at = grave(event.properties["headers"]["x-death"][0]["queue"]) if queue == DEAD else queue, identity(event.body)
        in_order = f"{self.plan.number}/{self.connections}/{consumer}" if consumer else ""
        self.truth.delivered(at, event.redelivered, self.timeline.now, in_order)
        if self.no_ack:
            self.truth.acked([at])
            return
        self.unacked[event.delivery_tag] = at
        if consumer and self.prefetch and self.consumers == 1:
            unacked = sum(not self.truth.may_be_forgotten(id) for _, id in self.unacked.values())
            assert unacked <= self.prefetch, f"{self.name} has {unacked} of {self.prefetch}"

    def may_act(self) -> bool:
        return bool(self.unacked) or self.client.deaf or self.moody > 0

    def act(self) -> None:
        """Settle something, or change its mind."""
        if self.client.deaf:
            if not self.is_cut():
                self.client.listen(self.chance.choice([1000, 1 << 30]))
        elif self.chance.random() < 0.005:
            self.go()
        elif self.chance.random() < self.moody:
            self.change_mind()
        elif self.unacked and self.chance.random() >= self.slow:
            self.settle()

    def change_mind(self) -> None:
        """Read nothing for a while, or cancel the present consumer."""
        if self.chance.random() < 0.5:
            self.client.deaf = True
        else:
            self.client.send("basic.cancel", CHANNEL, consumer_tag=next(reversed(self.queue_of)))

    def settle(self) -> None:
        """Ack, requeue or reject some deliveries."""
        tags = list(self.unacked)
        tag = self.chance.choice(tags)
        multiple = self.chance.random() < 0.7
        some = [each for each in tags if each <= tag] if multiple else [tag]
        gone = [self.unacked.pop(each) for each in some]
        if self.chance.random() >= self.refuses:
            self.truth.acked(gone)
            when_read = partial(self.truth.gone, gone)
            self.client.send("basic.ack", CHANNEL, when_read, delivery_tag=tag, multiple=multiple)
        elif self.chance.random() < 0.7:
            self.truth.given_back(gone)
            self.client.send("basic.nack", CHANNEL, delivery_tag=tag, multiple=multiple, requeue=True)
        else:
            self.truth.rejected(gone)
            when_read = partial(self.truth.gone, gone)
            self.client.send("basic.nack", CHANNEL, when_read, delivery_tag=tag, multiple=multiple, requeue=False)

    def lost(self) -> None:
        self.truth.departed(self.timeline.now)
        self.truth.given_back(list(self.unacked.values()))
        self.unacked.clear()

    def falls_silent(self) -> None:
        """Drop the connection, so that what is unacked returns to its queue."""
        super().falls_silent()
        self.leave()


class Getter(Consumer):
    """Gets messages one by one."""

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan, arrive: Arrive) -> None:
        super().__init__(engine, truth, plan, arrive)
        self.no_ack, self.moody = False, 0.0
        self.gets: deque[str] = deque()

    def begin(self) -> None:
        """Get nothing yet."""
        self.unacked = {}
        self.gets.clear()

    def may_act(self) -> bool:
        return True

    def act(self) -> None:
        """Get a message, or settle some."""
        if self.chance.random() < 0.5 and len(self.gets) < 5:
            self.gets.append(self.chance.choice(self.queues))
            self.client.send("basic.get", CHANNEL, queue=self.gets[-1])
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

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan, arrive: Arrive) -> None:
        super().__init__(engine, truth, plan, arrive)
        self.prefetch, self.pace, self.no_ack = 50, 0.005, False

    def begin(self) -> None:
        """Consume from all queues."""
        self.client.send("basic.qos", CHANNEL, prefetch_count=self.prefetch)
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
        self.client.send("basic.ack", CHANNEL, when_read, delivery_tag=tag, multiple=True)

    def unanswered(self) -> int:
        return super().unanswered() + len(self.unacked)
