"""Load, a fault, a rest, a check: rounds of two or three seconds, repeated on the same node."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Sequence

from tests.faults.cast import Cast, declare, everybody
from tests.faults.checker import Checker
from tests.faults.drain import Drain
from tests.faults.events import Fault, Over, Record
from tests.faults.node import Node
from tests.faults.report import report
from tests.waiting import PATIENCE

Harm = Callable[["Rounds"], None]
"""A function that harms the node of a run; the node serves again when it returns."""

SEED = int(os.environ.get("FAULTS_SEED", "0"))
"""Added to the seed of each test, so that `FAULTS_SEED=17 pytest tests/faults` does other runs."""


class Rounds:
    """One node and its clients. All randomness but timing comes from the seed."""

    def __init__(
        self, node: Node, seed: int, harms: Sequence[Harm], cast: Callable[[Node, Record, object], Cast] = everybody
    ) -> None:
        self.node = node
        self.seed = seed
        self.harms = harms
        self.chance = random.Random(seed)
        self.record = Record()
        self.cast = cast(node, self.record, seed)
        self.clients = [client for group in self.cast.groups for client in group]
        self.checker = Checker(self.cast.plan.queues)
        self._checked = 0
        declare(node, self.cast.plan)

    def run(self, count: int) -> None:
        """Run `count` rounds, then stop the node and all clients. AssertionError with a full report (`report`)."""
        number = 0
        try:
            for number in range(count):
                self.round(number)
            self.node.stop()
        except Exception as error:
            self.take_events()
            raise AssertionError(report(self, number, error)) from error
        finally:
            self.node.end()
            for client in self.clients:
                client.abandon()
            for client in self.clients:
                client.join(PATIENCE)

    def fault(self, what: str, shards: Iterable[int] = ()) -> None:
        """Record a fault before it is caused, and the shards that die of it."""
        self.record.note(Fault(what, frozenset(shards)))

    def over(self, what: str) -> None:
        """Record that a fault is over and the node serves again, or the progress of a round."""
        self.record.note(Over(what))

    def round(self, number: int) -> None:
        """Run one round."""
        self.over(f"round {number} begins")
        for client in self.clients:
            client.start()
        time.sleep(self.chance.uniform(0.1, 0.7))
        self.chance.choice(self.harms)(self)
        time.sleep(self.chance.uniform(0.1, 0.5))
        for group in self.cast.groups:
            for client in group:
                client.stop()
            for client in group:
                client.join(2 * PATIENCE)
        self.over("everybody has gone")
        self.cast.declarer.check()
        self.cast.guest.check()
        declare(self.node, self.cast.plan)
        Drain(self.node, self.record, self.cast.plan, number).run()
        self.check()
        self.over(f"round {number} ends, {len(self.record.events)} events")

    def take_events(self) -> None:
        """Give the checker the events recorded since the last call."""
        events = self.record.events[self._checked :]
        self._checked += len(events)
        self.checker.take(events)

    def check(self) -> None:
        """Raise AssertionError if a rule is violated, or the broker has logged a traceback."""
        self.take_events()
        problems = self.checker.problems
        if "Traceback" in self.node.broker.log:
            problems.append("an error of the broker's own: see its log")
        if problems:
            raise AssertionError(problems[0])
