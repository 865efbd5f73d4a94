"""The clients that publish what they consume."""

from __future__ import annotations

from tests.frames import Event
from tests.simulator.consumers import Consumer, Outcome, Settlement
from tests.simulator.engine import Engine
from tests.simulator.plan import ClientPlan
from tests.simulator.producers import Producer
from tests.simulator.truth import At, Truth


class Relay(Producer, Consumer):
    """Consumes from a queue and publishes a message for each that it gets, with confirms, on the same channel. What it
    got is acked when that is confirmed: two of them may wait for each other for ever.
    """

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan) -> None:
        super().__init__(engine, truth, plan)
        self.no_ack = self.transacts = False
        self.moody = 0.0
        self.relayed: dict[int, tuple[int, At]] = {}
        """What was published for which delivery: (its tag, its place), by publish sequence number."""

    def begin(self) -> None:
        self.tag = 0
        self.relayed.clear()
        if self.confirms:
            self.client.send("confirm.select", self.number)
        Consumer.begin(self)

    @property
    def confirms(self) -> bool:
        return not self.transacts

    def may_act(self) -> bool:
        return Producer.may_act(self) and bool(self.unacked or self.uncommitted)

    def act(self) -> None:
        """Publish for some deliveries, or leave."""
        if self.chance.random() < 0.005:
            self.go()
            return
        for tag in list(self.unacked)[: self.chance.choice([1, 5, 20])]:
            self.publish(self.chance.choice(self.targets))
            self.has_published(tag, self.unacked.pop(tag))
        if self.transacts and self.chance.random() < 0.4:
            self.end_transaction()

    def has_published(self, tag: int, at: At) -> None:
        """Keep a delivery until the message published for it is confirmed."""
        self.relayed[self.tag] = tag, at

    def receive(self, event: Event) -> None:
        if event.name in ("basic.ack", "basic.nack"):
            for tag in self.confirmed(event):
                self.settle_one(*self.relayed.pop(tag), acked=event.name == "basic.ack")
        elif event.name == "channel.close" and self.was_held_too_long(event):
            self.opens_again()
        else:
            Consumer.receive(self, event)

    def settle_one(self, tag: int, at: At, acked: bool) -> None:
        """Ack the delivery whose message was confirmed, or have it delivered again."""
        if acked:
            gone = self.takes_effect(Settlement(Outcome.ACKED, {tag: at}))
            self.client.send("basic.ack", self.number, gone, delivery_tag=tag)
        else:
            self.takes_effect(Settlement(Outcome.REQUEUED, {tag: at}))
            self.client.send("basic.nack", self.number, delivery_tag=tag, requeue=True)

    def lost(self) -> None:
        Producer.lost(self)
        self.unacked |= dict(self.relayed.values())
        self.relayed.clear()
        Consumer.lost(self)

    def falls_silent(self) -> None:
        Consumer.falls_silent(self)

    def unanswered(self) -> int:
        return Producer.unanswered(self)


class TransactingRelay(Relay):
    """Publishes and acks in the same transaction."""

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan) -> None:
        super().__init__(engine, truth, plan)
        self.transacts = True

    def has_published(self, tag: int, at: At) -> None:
        """Ack a delivery together with the publish."""
        self.settlements.append(Settlement(Outcome.ACKED, {tag: at}))
        self.client.send("basic.ack", self.number, delivery_tag=tag)

    def receive(self, event: Event) -> None:
        if event.name == "tx.commit-ok":
            Producer.receive(self, event)
        if event.name == "channel.close" and "acknowledgement" not in event.text:
            self.refused(event)
        else:
            Consumer.receive(self, event)

    def refused(self, event: Event) -> None:
        if "no room" in event.text:
            for settlement, _ in self.commits.popleft():
                self.truth.undone(settlement.places.values())
        super().refused(event)
