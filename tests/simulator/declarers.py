"""The clients that declare queues for a while, use them, and delete them under each other's hands."""

from __future__ import annotations

from collections import deque
from typing import Any

from tests.frames import Event
from tests.simulator.engine import NETWORK_SECONDS, Engine
from tests.simulator.person import Person, Phase
from tests.simulator.plan import FANOUT, TEMPORARY, ClientPlan
from tests.simulator.truth import Truth

NOT_THERE, LOCKED, OTHERWISE, FORBIDDEN = 404, 405, 406, 403
REFUSALS = (NOT_THERE, LOCKED, OTHERWISE, FORBIDDEN)
"""Reply codes that a client must expect whose queues others delete, own or declare otherwise."""


class Declarer(Person):
    """Declares, binds, purges and deletes queues, publishes to them and consumes from them. Each of its requests is
    answered once unless its channel is closed: those of class queue in order, and those of class basic, which may
    overtake what is parked behind publishes (docs/flow-control.md).
    """

    def __init__(self, engine: Engine, truth: Truth, plan: ClientPlan) -> None:
        super().__init__(engine, truth, plan)
        self.answers: deque[str] = deque()
        self.consumers: set[str] = set()
        self.declared = 0

    def begin(self) -> None:
        """Nothing comes first."""
        self.answers.clear()
        self.consumers.clear()

    def may_act(self) -> bool:
        return len(self.answers) < 5

    def act(self) -> None:
        """Do one thing with a queue."""
        name = self.chance.choice(TEMPORARY)
        if self.chance.random() < 0.03:
            self.go()
            return
        if self.chance.random() < 0.03:
            self.declare(name, durable=True)  # refused if it exists otherwise, while the close is on its way
            self.close_channel()
            return
        match self.chance.choice(("declare", "declare", "delete", "bind", "unbind", "purge", "publish", "consume")):
            case "declare":
                self.declare(name)
            case "delete":
                if_unused, if_empty = self.chance.random() < 0.2, self.chance.random() < 0.2
                self.request("queue.delete", queue=name, if_unused=if_unused, if_empty=if_empty)
            case "bind":
                self.request("queue.bind", queue=name, exchange=FANOUT, routing_key="")
            case "unbind":
                self.request("queue.unbind", queue=name, exchange=FANOUT, routing_key="")
            case "purge":
                self.request("queue.purge", queue=name)
            case "publish":
                for _ in range(self.chance.choice([1, 10])):
                    self.client.publish(
                        self.number, b"temporary", routing_key=name, mandatory=self.chance.random() < 0.5
                    )
            case "consume" if self.consumers and self.chance.random() < 0.5:
                self.request("basic.cancel", consumer_tag=self.chance.choice(sorted(self.consumers)))
            case "consume":
                self.declared += 1
                no_ack = self.chance.random() < 0.5
                self.request("basic.consume", queue=name, consumer_tag=f"{name} {self.declared}", no_ack=no_ack)

    def declare(self, name: str, durable: bool = False) -> None:
        """Declare a queue; one in four belongs to this connection alone."""
        traits = {"exclusive": self.chance.random() < 0.25, "auto_delete": self.chance.random() < 0.25}
        arguments = {"qpid.flow_stop_count": 8} if self.chance.random() < 0.5 else {}
        if self.chance.random() < 0.25:
            arguments["x-expires"] = self.chance.choice([20, 500])
        self.request("queue.declare", queue=name, durable=durable, arguments=arguments, **traits)

    def request(self, name: str, **arguments: Any) -> None:
        """Send a method that is answered."""
        self.answers.append(f"{name}-ok")
        self.client.send(name, self.number, **arguments)

    def receive(self, event: Event) -> None:
        match event.name:
            case "channel.close":
                assert event.code in REFUSALS, f"{self.name} is refused: {event}"
                self.opens_again()
            case "basic.cancel":
                self.consumers.discard(event.consumer_tag)
            case "basic.deliver":
                assert event.consumer_tag in self.consumers, f"{self.name} has no consumer {event.consumer_tag}"
                if self.chance.random() < 0.8:
                    self.client.send("basic.ack", self.number, delivery_tag=event.delivery_tag)
            case "basic.return":
                pass
            case _:
                of_class = event.name.partition(".")[0]
                due = next((answer for answer in self.answers if answer.startswith(of_class)), None)
                assert due == event.name, f"{event} instead of {self.answers}"
                self.answers.remove(due)
                if event.name == "basic.consume-ok":
                    self.consumers.add(event.consumer_tag)
                elif event.name == "basic.cancel-ok":
                    self.consumers.discard(event.consumer_tag)
        self.leave_if_answered()

    def closed_channel(self) -> None:
        super().closed_channel()
        self.leave_if_answered()

    def lost(self) -> None:
        self.answers.clear()
        self.consumers.clear()

    def falls_silent(self) -> None:
        """Leave as soon as everything is answered."""
        super().falls_silent()
        self.leave_if_answered()

    def leave_if_answered(self) -> None:
        """Leave soon if the play ends and nothing more is to come."""
        if self.phase is Phase.SILENT and not self.unanswered():
            self.timeline.after(NETWORK_SECONDS, self.leave)

    def unanswered(self) -> int:
        return super().unanswered() + len(self.answers)
