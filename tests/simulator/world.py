"""The world: plays a plan with its clients, operators and faults, and ends it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from router.model.delaying import delay_queue_of
from router.model.hashing import CONSISTENT_HASH
from router.model.records import DELAYED_MESSAGE, DELAYED_TYPE, LEAVING, STARTING
from tests.simulator.clients import DRAINER, make_client
from tests.simulator.connections import ClientConnection, connections_of
from tests.simulator.engine import Engine
from tests.simulator.faults import Faults
from tests.simulator.hashed import weight
from tests.simulator.invariants.gates import is_stopped
from tests.simulator.lessees import Lessee
from tests.simulator.operators import Operators
from tests.simulator.person import Person
from tests.simulator.plan import DELAYED, FANOUT, HASH, ClientPlan, Habit, Lull, Plan
from tests.simulator.producers import Producer
from tests.simulator.promises import Promises
from tests.simulator.supervisor import START_SECONDS
from tests.simulator.truth import Truth
from tests.simulator.users import EVE, MALLORY, NOWHERE
from tests.simulator.weather import BEGINS

END_SECONDS, REST_SECONDS = 60.0, 2.0
"""How long draining may take, and how long nothing may happen after that, in virtual time."""
SETTLING_SECONDS = 0.5
"""How long it takes at most, once nobody does anything, until nothing moves for a moment."""
MOST_STEPS = 400_000
"""A play with more steps does not come to an end."""
STEPS_BETWEEN = 50
"""Steps between two checks of the depths, and of whether the node is at rest."""


class World:
    """One play of a plan."""

    def __init__(self, plan: Plan, narrated: bool = False) -> None:
        self.plan = plan
        self.engine = Engine(plan, narrated)
        self.node = self.engine.node
        self.truth = Truth(plan)
        self.promises = Promises(plan, self.truth, self.node)
        self.clients = {client.number: self.client(client) for client in plan.clients}
        self.connections = connections_of(self.engine, [*self.clients.values()], self.arrive)
        self.faults = Faults(self.engine, self.truth, self.connections)
        self.operators = Operators(self.engine, self.faults.supervisor.restart_acceptors)
        self.steps = 0

    def client(self, plan: ClientPlan) -> Person:
        """Return a client."""
        return make_client(self.engine, self.truth, plan)

    def play(self) -> None:
        """Play the plan to its end. AssertionError if a promise was broken."""
        try:
            self.begin()
            if self.plan.lull is not None:
                self.rest(self.plan.lull)
            self.go_on(BEGINS + self.plan.duration - self.engine.timeline.now)
            self.end()
        finally:
            self.node.__exit__()

    def begin(self) -> None:
        """Declare the queues, and put everything planned on the timeline."""
        with self.node.one_turn():
            self.declare()
        self.engine.begin()
        for connection in self.connections.values():
            self.engine.timeline.after(connection.plan.arrives, partial(self.arrive, connection))
        self.faults.begin()
        self.operators.begin()

    def declare(self) -> None:
        """Make the users, the exchanges and the queues of the plan."""
        self.node.add_user(EVE)
        self.node.add_user(MALLORY, NOWHERE)
        self.node.ask("exchange_declare", name=FANOUT, type="fanout", durable=True)
        self.node.ask("exchange_declare", name=HASH, type=CONSISTENT_HASH, durable=True)
        if self.plan.delays:
            arguments = {DELAYED_TYPE: "fanout"}
            self.node.ask("exchange_declare", name=DELAYED, type=DELAYED_MESSAGE, durable=True, arguments=arguments)
        for queue in self.plan.queues:
            self.node.declare(queue.name, queue.shard, self.plan.stores, **queue.arguments)
            if queue.bound:
                user = MALLORY if queue.unprivileged else "guest"
                self.node.ask("queue_bind", queue=queue.name, source=FANOUT, key="", user=user)
                self.node.ask("queue_bind", queue=queue.name, source=HASH, key=weight(queue.name), user=user)
                if self.plan.delays:
                    self.node.ask("queue_bind", queue=queue.name, source=DELAYED, key="", user=user)
        if self.plan.share is not None:
            self.node.policy("share", "", {"flow-share": f"{self.plan.share} %"}, "exchanges")

    def go_on(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, at most until a condition holds."""
        ends = self.engine.timeline.now + seconds
        self.engine.arm_all()
        while not until() and self.engine.step(ends):
            if self.promises.hold_always():
                self.faults.supervisor.restart_is_given_up()
            self.steps += 1
            if self.steps % STEPS_BETWEEN == 0:
                self.promises.hold_now()
            assert self.steps < MOST_STEPS, "the play does not come to an end"

    # Clients

    def arrive(self, connection: ClientConnection) -> None:
        """Connect clients to their acceptor, or to any that runs; later if none does, no router could answer, or the
        network is away.
        """
        if connection.is_silent():
            return
        running = self.node.accepting()
        if not running or not self.node.router_runs or connection.is_cut():
            self.engine.timeline.after(START_SECONDS, partial(self.arrive, connection))
            return
        home = connection.plan.acceptor
        at_home = [seat for seat in running if self.node.index_of(seat) == home] or [running[home % len(running)]]
        acceptor = connection.chance.choice(at_home) if len(at_home) > 1 else at_home[0]
        client = self.node.visit(acceptor, connection.properties, user=connection.user)
        client.fills = bool(self.plan.bounds.last_resort)
        connection.connect(client)
        self.engine.read_from(connection.plan.number, client)
        self.engine.narrate(f"{connection.name}: connected to acceptor {acceptor}")

    # Rest

    def rest(self, lull: Lull) -> None:
        """Play until shortly before the end of a lull; then everything has come to rest, unless something has just gone
        wrong, or gone on after a deadlock.
        """
        self.go_on(lull.begins + lull.seconds - SETTLING_SECONDS)
        if self.faults.are_over(REST_SECONDS) and not self.faults.supervisor.has_broken_a_deadlock(REST_SECONDS):
            self.come_to_rest(SETTLING_SECONDS / 2)
            self.faults.supervisor.deadlocks_are_broken()

    def come_to_rest(self, seconds: float) -> None:
        """Play until nothing moves, for so long at most, and check what is true then."""
        self.go_on(seconds, until=lambda: not self.moving())
        assert not self.moving(), f"it does not come to rest: {self.moving()}"
        self.promises.hold_at_rest()
        if self.node.console is not None:
            self.node.record_gauges()
            self.node.console.is_right()
        for person in self.clients.values():
            channel = person.channel()
            if channel is None:
                continue
            assert person.flows or is_stopped(channel), f"{person.name} is stopped, and nothing holds its channel"
            if isinstance(person, Lessee):
                assert person.has_all(), f"{person.name} lacks {person.missing} of its lease"
            if isinstance(person, Producer) and person.confirms:
                self.promises.confirms_come(person.name, person.client.acceptor, channel, person.unconfirmed)

    # The end

    def end(self) -> None:
        """End all faults, stops and habits, drain the queues, and check what was promised."""
        self.engine.weather.calm = True
        self.faults.end()
        self.go_on(END_SECONDS, until=self.faults.supervisor.is_serving)
        self.operators.end()
        self.engine.narrate("all faults are over, the producers fall silent, and one client drains the queues")
        for person in self.clients.values():
            person.falls_silent()
        drainer = self.clients[DRAINER] = self.client(ClientPlan(DRAINER, Habit.DRAINING, 0, 0.0, False))
        self.connections |= connections_of(self.engine, [drainer], self.arrive)
        self.arrive(self.connections[DRAINER])
        self.go_on(END_SECONDS, until=self.is_at_rest)
        assert not any(self.unrest().values()), f"not at rest after {END_SECONDS:g} s: {self.unrest()}"
        self.go_on(REST_SECONDS)
        self.come_to_rest(SETTLING_SECONDS)
        self.promises.hold_at_the_end()
        self.faults.supervisor.are_replaced()
        self.operators.are_answered()
        for connection in self.connections.values():
            assert not (connection.is_connected() and connection.blocked), f"{connection.name} is still blocked"

    def is_at_rest(self) -> bool:
        """Whether nothing is left to be delivered, read or answered; checked now and then. Queues that were to last for
        a while are deleted meanwhile.
        """
        if self.steps % STEPS_BETWEEN:
            return False
        self.operators.delete_all_but({queue.name for queue in self.plan.queues} | {delay_queue_of(DELAYED)})
        return not any(self.unrest().values())

    def unrest(self) -> dict[str, list[Any]]:
        """Return what keeps the node from being at rest."""
        queues = [queue for _, shard in self.node.running_shards() for queue in shard.core.state.queues.values()]
        connected = [person for person in self.clients.values() if person.is_connected()]
        return {
            "queues": [(queue.name, queue.depth, queue.depth_bytes) for queue in queues if queue.depth],
            "unread": [each.name for each in self.connections.values() if each.is_connected() and each.client.unread],
            "unanswered": [(person.name, what) for person in connected if (what := person.unanswered())],
            "parked": [channel.number for channel in self.node.channels() if channel.inbox or channel.running],
            "lines": self.lines(),
            "shards": [
                shard for shard in self.node.router.topology.shards.values() if shard.state in (STARTING, LEAVING)
            ],
        }

    def lines(self) -> list[str]:
        """Return the names of lines in which something waits."""
        return [activity.name for activity in self.engine.activities if activity.waits()]

    def moving(self) -> list[str]:
        """Return the names of lines in which something waits, and of processes that are to end a turn."""
        return [*self.lines(), *(f"turn of {role} {number}" for role, number in sorted(self.engine.ending))]
