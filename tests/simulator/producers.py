"""The clients that publish."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

from penstock.limits.ladder import CLOSE_CHANNEL
from tests.frames import Event
from tests.simulator.engine import Engine
from tests.simulator.hashed import key_of
from tests.simulator.plan import DEAD, DELAYED, FANOUT, HASH, TEMPORARY, TRANSACTION_TIMEOUT, ClientPlan, Habit
from tests.simulator.transactions import Transacting
from tests.simulator.truth import Id, Truth

SIZES = (0, 0, 100, 9000)
DELAYS = (0, 1, 20, 20, 300)
"""In milliseconds."""


class Producer(Transacting):
    """Publishes, with confirms, without, or in transactions."""

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan) -> None:
        super().__init__(engine, truth, plan)
        self.targets = [queue.name for queue in engine.plan.queues if queue.name != DEAD] + [FANOUT, HASH]
        if engine.plan.delays:
            self.targets.append(DELAYED)
        if any(client.habit is Habit.DECLARING for client in engine.plan.clients):
            self.targets += TEMPORARY
        if plan.target is not None:
            self.targets = [plan.target]
        self.published = 0
        self.transacts = plan.habit is Habit.TRANSACTING
        self.tag = 0
        self.unconfirmed: dict[int, Id] = {}
        self.uncommitted: list[Id] = []
        self.committing: deque[list[Id]] = deque()

    @property
    def confirms(self) -> bool:
        """Whether its publishes are confirmed."""
        return self.plan.habit is Habit.CONFIRMING

    def begin(self) -> None:
        self.tag = 0
        if self.confirms:
            self.client.send("confirm.select", self.number)
        elif self.transacts:
            self.client.send("tx.select", self.number)

    def may_act(self) -> bool:
        stopped = not self.flows or self.connection.blocked
        return not (stopped and self.plan.obeys) and len(self.unconfirmed) < 200 and len(self.committing) < 3

    def act(self) -> None:
        if self.chance.random() < 0.005:
            self.go()
            return
        for _ in range(self.chance.choice([1, 1, 5, 20])):
            self.publish(self.chance.choice(self.targets))
        if self.transacts and self.chance.random() < 0.3:
            self.end_transaction()

    def publish(self, target: str) -> None:
        """Publish a persistent message to a queue or to an exchange."""
        self.published += 1
        id = Id(self.plan.number, self.published)
        to = (target, key_of(*id)) if target in (FANOUT, HASH, DELAYED) else ("", target)
        self.truth.published(id, target, self.timeline.now, self.channels)
        headers: dict[str, Any] = {"headers": {"x-delay": self.chance.choice(DELAYS)}} if target == DELAYED else {}
        body = b"%d %d " % id + bytes(self.chance.choice(SIZES))
        when_read = None if self.transacts else partial(self.truth.was_read, id, self.client.acceptor)
        if self.transacts:
            self.uncommitted.append(id)
        elif self.confirms:
            self.tag += 1
            self.unconfirmed[self.tag] = id
        priority = self.chance.randrange(5)
        self.client.publish(self.number, body, *to, when_read, delivery_mode=2, priority=priority, **headers)

    def commit(self) -> None:
        super().commit()
        ids, self.uncommitted = self.uncommitted, []
        self.truth.committing(ids)
        self.committing.append(ids)

    def roll_back(self) -> None:
        super().roll_back()
        self.truth.rolled_back(self.uncommitted)
        self.uncommitted = []

    def receive(self, event: Event) -> None:
        match event.name:
            case "basic.ack" | "basic.nack":
                self.confirmed(event)
            case "tx.commit-ok":
                self.truth.committed(self.committing.popleft(), self.timeline.now)
            case "channel.close":
                self.refused(event)
            case "basic.return":
                raise AssertionError(f"returned to {self.name}: {event}")

    def confirmed(self, event: Event) -> list[int]:
        """Record confirms, each tag once; return the tags."""
        last = event.delivery_tag
        tags = [tag for tag in self.unconfirmed if tag <= last] if event.multiple else [last]
        assert tags and all(tag in self.unconfirmed for tag in tags), f"a confirm of nothing: {event}"
        for tag in tags:
            id = self.unconfirmed.pop(tag)
            if event.name == "basic.ack":
                self.truth.confirmed(id, self.timeline.now)
            else:
                self.truth.nacked(id)
        return tags

    def refused(self, event: Event) -> None:
        """Record that a commit found no room in a refusing queue, or was too late, which ends the channel: open it
        again.
        """
        if self.engine.plan.outlasts(TRANSACTION_TIMEOUT) and "open for longer" in event.text:
            self.opens_again()
            return
        if self.engine.plan.bounds.last_resort and "more than its share" in event.text:
            self.opens_again()
            return
        if self.was_held_too_long(event):
            self.opens_again()
            return
        assert self.committing, f"{self.name} is refused: {event}"
        assert "no room" in event.text, event
        self.truth.rolled_back(self.committing.popleft())
        self.opens_again()

    def was_held_too_long(self, event: Event) -> bool:
        """Whether the channel is closed because a queue held it for too long (docs/flow-holding.md)."""
        return event.code == 311 and "; held for" in event.text and self.engine.plan.reaches(CLOSE_CHANNEL)

    def opens_again(self) -> None:
        self.truth.may_be_dropped(self.unconfirmed.values())
        super().opens_again()

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
            self.roll_back()
            self.client.send("tx.rollback", self.number)

    def unanswered(self) -> int:
        return super().unanswered() + len(self.unconfirmed) + len(self.committing)
