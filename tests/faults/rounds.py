"""Load, a fault, rest, check: a round of two or three seconds. Again and again on the same node."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence

from tests.faults.cast import declare, everybody
from tests.faults.checker import Checker
from tests.faults.drain import Drain
from tests.faults.events import Fault, Over, Record
from tests.faults.node import Node
from tests.waiting import PATIENCE

Harm = Callable[["Rounds"], None]
"""Does something to the node of a run; whatever it was, the node serves again when it returns."""

SEED = int(os.environ.get("FAULTS_SEED", "0"))
"""Added to the seed of each test: `FAULTS_SEED=17 pytest tests/faults` takes another course."""
SHOWN = 20
HISTORIES = 3


class Rounds:
    """One node and its clients. Everything random about it comes of the seed, but for when things happen."""

    def __init__(self, node: Node, seed: int, harms: Sequence[Harm]) -> None:
        self.node = node
        self.seed = seed
        self.harms = harms
        self.chance = random.Random(seed)
        self.record = Record()
        self.cast = everybody(node, self.record, seed)
        self.clients = [*self.cast.publishers, *self.cast.readers, self.cast.declarer]
        self.checker = Checker(self.cast.plan.queues)
        self._checked = 0
        declare(node, self.cast.plan)

    def run(self, count: int) -> None:
        """So many rounds, then the node is stopped and no client is left.

        AssertionError with the first things that are wrong, and what happened to the messages they are about.
        """
        try:
            for number in range(count):
                self.round(number)
            self.node.stop()
        finally:
            self.node.end()
            for client in self.clients:
                client.abandon()
            for client in self.clients:
                client.join(PATIENCE)

    def fault(self, what: str) -> None:
        """Say so before it is done."""
        self.record.note(Fault(what))

    def over(self, what: str) -> None:
        """Say so when it is done and the node serves again; or say where a round is."""
        self.record.note(Over(what))

    def round(self, number: int) -> None:
        self.over(f"round {number} begins")
        for client in self.clients:
            client.start()
        time.sleep(self.chance.uniform(0.1, 0.7))
        self.chance.choice(self.harms)(self)
        time.sleep(self.chance.uniform(0.1, 0.5))
        for group in (self.cast.publishers, self.cast.readers, [self.cast.declarer]):
            for client in group:
                client.stop()
            for client in group:
                client.join(2 * PATIENCE)
        self.over("everybody has gone")
        self.cast.declarer.check()
        declare(self.node, self.cast.plan)
        Drain(self.node, self.record, self.cast.plan, number).run()
        self.check(number)
        self.over(f"round {number} ends, {len(self.record.events)} events")

    def check(self, number: int) -> None:
        events = self.record.events
        self.checker.take(events[self._checked :])
        self._checked = len(events)
        problems = self.checker.problems
        if "Traceback" in self.node.broker.log:
            problems.append("an error of the broker's own: see its log")
        if problems:
            lines = [f"seed {self.seed}, round {number}: {len(problems)} things wrong", *problems[:SHOWN]]
            for message in list(self.checker.suspects.values())[:HISTORIES]:
                lines += [f"-- {message}", self.record.history(message)]
            raise AssertionError("\n".join(lines))
