"""The operators of a world: they change policies, stop publishes and move queues, as far as a router answers."""

from __future__ import annotations

from functools import partial

from tests.simulator.engine import Engine
from tests.simulator.plan import POLICIES, Deed, Operation

UNNAMED = ("exchange", "key", "user", "connection")


class Operators:
    """Carries out the operators' actions of a plan. `stops` has the numbers of stops by queue."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.node = engine.node
        self.stops: dict[str, list[int]] = {}

    def begin(self) -> None:
        """Put the planned actions on the timeline."""
        for operation in self.engine.plan.operations:
            self.engine.timeline.after(operation.at, partial(self.operate, operation))

    def operate(self, operation: Operation) -> None:
        """Do something, if there is a router to ask."""
        if not self.node.router_lives:
            return
        match operation.deed:
            case Deed.POLICY:
                self.set_policy(operation.queue, operation.choice)
            case Deed.STOP:
                self.stop(operation.queue)
            case Deed.LIFT:
                self.lift(operation.queue)
            case Deed.MOVE:
                shard = operation.choice % self.engine.plan.shards
                self.node.move(operation.queue, shard)
                self.engine.narrate(f"an operator moves {operation.queue} to shard {shard}")
        self.engine.arm_all()

    def set_policy(self, queue: str, choice: int) -> None:
        """Set the policy of a queue, or delete it."""
        definition = POLICIES[choice % len(POLICIES)]
        self.node.policy(queue, f"^{queue}$", definition)
        self.engine.narrate(f"an operator sets the policy of {queue} to {definition}")

    def stop(self, queue: str) -> None:
        """Stop publishes to a queue until that is lifted."""
        stop = self.node.command(
            "flow_stop", author="ann", reason="", seconds=None, vhost="/", queue=queue, **dict.fromkeys(UNNAMED)
        )
        self.stops.setdefault(queue, []).append(stop["number"])
        self.engine.narrate(f"an operator stops publishes to {queue}")

    def lift(self, queue: str) -> None:
        """Lift all stops of a queue."""
        for number in self.stops.pop(queue, ()):
            if number in self.node.router.topology.stops:
                self.node.command("flow_lift", number=number)
                self.engine.narrate(f"an operator lifts the stop of {queue}")

    def delete_all_but(self, names: set[str]) -> None:
        """Delete the queues that have other names, but for those that go with their connection."""
        for queue in list(self.node.router.topology.queues()):
            if queue.name not in names and queue.owner is None:
                self.node.ask("queue_delete", queue_id=queue.queue_id)
                self.engine.arm_all()

    def end(self) -> None:
        """Lift all stops."""
        for queue in list(self.stops):
            self.lift(queue)
