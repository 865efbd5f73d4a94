"""Which client has which habit."""

from __future__ import annotations

from tests.simulator.attackers import Attacker
from tests.simulator.consumers import Consumer, Drainer, Getter
from tests.simulator.declarers import Declarer
from tests.simulator.engine import Engine
from tests.simulator.hostile import Hostile
from tests.simulator.lessees import Lessee
from tests.simulator.person import Person
from tests.simulator.plan import ClientPlan, Habit
from tests.simulator.producers import Producer
from tests.simulator.relays import Relay, TransactingRelay
from tests.simulator.truth import Truth

DRAINER = 0
"""The number of the client that drains all queues."""

KINDS: dict[Habit, type[Person]] = {
    Habit.CONFIRMING: Producer, Habit.PLAIN: Producer, Habit.TRANSACTING: Producer, Habit.CONSUMING: Consumer,
    Habit.GETTING: Getter, Habit.LEASING: Lessee, Habit.RELAYING: Relay,
    Habit.RINGING: Relay, Habit.TRANSACTING_RELAY: TransactingRelay, Habit.DECLARING: Declarer, Habit.HOSTILE: Hostile,
    Habit.ATTACKING: Attacker, Habit.DRAINING: Drainer,
}  # fmt: skip


def make_client(engine: Engine, truth: Truth, plan: ClientPlan) -> Person:
    """Return a client with the habit that its plan says."""
    return KINDS[plan.habit](engine, truth, plan)
