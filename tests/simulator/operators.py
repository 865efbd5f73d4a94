"""The operators of a world: they change policies, stop publishes and move queues, as far as a router answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.control.control import Refusal
from tests.simulator.engine import Engine
from tests.simulator.plan import FANOUT, Deed, Operation
from tests.simulator.policies import OWNERS, POLICIES, SHARED, Definition
from tests.simulator.stops import StopWatch
from tests.simulator.users import ANYWHERE, EVE, MALLORY, NOWHERE

NAMES = ("vhost", "exchange", "key", "queue", "user", "connection")
"""What a stop may name."""
RESULTS = ("moved", "rolled-back", "already-there", "busy", "no-queue", "no-shard", "refused")
REASONS = (
    "has died",
    "aborted",
    "does not serve",
    "no room",
    "wait for room",
    "takes no queues",
    "exclusive",
    "leased",
    "contents of queue",
)
"""Why a queue is not moved: a process has died, an operator has asked, its target or its dead letters have no room, a
client has leases, or its disk has damaged a message that it has not come to yet.
"""


class Operators:
    """Carries out the operators' actions of a plan. `stops` has the numbers of stops, and `policies` the names of
    policies, as (name, what they apply to, vhost).
    """

    def __init__(self, engine: Engine, restart_acceptors: Callable[[], None]) -> None:
        self.engine = engine
        self.restart_acceptors = restart_acceptors
        self.node = engine.node
        self.stops: list[int] = []
        self.watch = StopWatch(engine)
        self.moves: list[list[dict[str, Any]]] = []
        """The answers to requests for moves."""
        self.policies: set[tuple[str, str, str]] = set()

    def begin(self) -> None:
        """Put the planned actions on the timeline."""
        for operation in self.engine.plan.operations:
            self.engine.timeline.after(operation.at, partial(self.operate, operation))

    def operate(self, operation: Operation) -> None:
        """Do something, if the router answers."""
        if not self.engine.router_answers():
            return
        queue, choice = operation.queue, operation.choice
        match operation.deed:
            case Deed.POLICY:
                self.set_policy(queue, f"^{queue}$", POLICIES[choice % len(POLICIES)])
            case Deed.LIMIT:
                self.limit([*OWNERS][choice % len(OWNERS)], SHARED[choice // 10 % len(SHARED)])
            case Deed.OVERTAKE:
                self.set_policy("overtaking", "^guest$", {"overtaking": "destination"} if choice % 2 else None, "users")
            case Deed.PERMIT:
                self.node.permit(MALLORY, ANYWHERE if choice % 2 else NOWHERE)
                self.engine.narrate(f"Mallory may write {'anywhere' if choice % 2 else 'nowhere'}")
            case Deed.ADD_SHARD | Deed.DRAIN | Deed.UNDRAIN | Deed.REMOVE:
                self.reshard(operation.deed, choice % self.node.places)
            case Deed.RESTART:
                self.engine.narrate("an operator restarts the acceptors")
                self.restart_acceptors()
            case Deed.EXPEL:
                self.expel()
            case Deed.STOP:
                self.stop(queue, choice)
            case Deed.LIFT:
                self.lift(choice)
            case Deed.MOVE:
                shard = choice % self.node.places
                self.moves.append(self.node.move(queue, shard))
                self.engine.narrate(f"an operator moves {queue} to shard {shard}")
            case Deed.ABORT:
                if self.node.abort_move(queue):
                    self.engine.narrate(f"an operator aborts the move of {queue}")
        self.engine.arm_all()

    def reshard(self, deed: Deed, shard: int) -> None:
        """Change the shards, unless the router refuses that. Queues of a drained one move away as far as they can."""
        try:
            match deed:
                case Deed.ADD_SHARD:
                    shard = self.node.command("shard_add")
                case Deed.DRAIN:
                    self.node.command("shard_drain", shard=shard)
                    self.empty(shard)
                case Deed.UNDRAIN:
                    self.node.command("shard_undrain", shard=shard)
                case _:
                    self.node.command("shard_remove", shard=shard)
        except Refusal as refusal:
            self.engine.narrate(f"an operator {deed} {shard}: {refusal}")
        else:
            self.engine.narrate(f"an operator {deed} {shard}")

    def empty(self, shard: int) -> None:
        """Move the queues of a shard to another."""
        targets = self.node.router.authority.placing.serving
        for queue in [queue for queue in self.node.router.topology.queues() if queue.shard == shard]:
            self.moves.append(self.node.move(queue.name, targets[queue.queue_id % len(targets)]))

    def expel(self) -> None:
        """Delete Eve, whose connections are closed; or add her again."""
        there = self.node.router.topology.users.user(EVE) is not None
        if there:
            self.node.command("user_delete", name=EVE)
        else:
            self.node.add_user(EVE)
        self.engine.narrate(f"an operator {'deletes' if there else 'adds'} Eve")

    def set_policy(
        self, name: str, pattern: str, definition: Definition | None, apply_to: str = "queues", vhost: str = "/"
    ) -> None:
        """Set a policy, or delete it."""
        self.node.policy(name, pattern, definition, apply_to, vhost)
        self.policies.add((name, apply_to, vhost))
        self.engine.narrate(f"an operator sets the policy {name} to {definition}")

    def limit(self, whose: str, definition: Definition | None) -> None:
        """Limit the queues of an owner together; of an exchange beside the share of queues that have to lag."""
        apply_to, vhost, pattern = OWNERS[whose]
        share = self.engine.plan.share
        if definition is not None and whose == "exchange" and share is not None:
            definition = definition | {"flow-share": f"{share} %"}
        self.set_policy(f"of the {whose}", pattern, definition, apply_to, vhost)

    def stop(self, queue: str, choice: int) -> None:
        """Stop publishes: to a queue or an exchange, of a user, or all of them."""
        scopes: tuple[dict[str, str], ...] = (
            {"vhost": "/", "queue": queue}, {"vhost": "/", "queue": queue}, {"vhost": "/", "exchange": FANOUT},
            {"vhost": "/", "exchange": ""}, {"user": "guest"}, {},
        )  # fmt: skip
        scope = scopes[choice % len(scopes)]
        names: dict[str, str | None] = dict.fromkeys(NAMES) | scope
        stop = self.node.command("flow_stop", author="ann", reason="", seconds=None, **names)
        self.stops.append(stop["number"])
        self.watch.begins(stop["number"])
        self.engine.narrate(f"an operator stops publishes: {scope or 'all'}")

    def lift(self, choice: int) -> None:
        """Lift a stop, if there is any."""
        if self.stops:
            number = self.stops.pop(choice % len(self.stops))
            if number in self.node.router.topology.stops:
                self.watch.ends(number)
                self.node.command("flow_lift", number=number)
                self.engine.narrate(f"an operator lifts stop {number}")

    def delete_all_but(self, names: set[str]) -> None:
        """Delete the queues that have other names. Those that go with their connection are left to it, unless they are
        in a shard that is full: that may hold the connection for as long as they are there.
        """
        for queue in list(self.node.router.topology.queues()):
            if queue.name not in names and (queue.owner is None or self.is_full(queue.shard)):
                self.node.ask("queue_delete", queue_id=queue.queue_id)
                self.engine.arm_all()

    def is_full(self, shard: int) -> bool:
        """Whether an acceptor finds that a shard has used up its memory."""
        return any(acceptor.core.links[shard].is_saturated() for _, acceptor in self.node.running_acceptors())

    def are_answered(self) -> None:
        """Check that each move ended once, in one of the ways that there are (docs/rebalancing.md), unless its router
        died.
        """
        for answers in self.moves:
            assert len(answers) <= 1
            for answer in answers:
                assert answer["result"] in RESULTS, answer
                explained = answer["result"] not in ("refused", "rolled-back")
                assert explained or any(reason in answer["reason"] for reason in REASONS), answer

    def end(self) -> None:
        """Lift all stops, those too whose lifting was lost before it was stored, and all hold-offs, and delete all
        policies.
        """
        self.stops = sorted(self.node.router.topology.stops)
        while self.stops:
            self.lift(0)
        for name, apply_to, vhost in sorted(self.policies):
            self.node.policy(name, "", None, apply_to, vhost)
        self.node.command("flow_readmit", user=None, host=None)
        self.engine.arm_all()
