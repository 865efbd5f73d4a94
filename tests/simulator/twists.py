"""What some plans have besides, drawn apart: so that of all other seeds the plans stay as they are."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from router.model.policy_keys import LAST_RESORTS
from tests.simulator.plan import ClientPlan, Deed, Fault, Habit, Lull, Mishap, Operation, Plan, QueuePlan
from tests.simulator.policies import POLICIES

RESTARTED = 0.15
"""The share of plans with rolling restarts of acceptors."""
RESTART_SECONDS = 1.5
"""The least duration of a play with one."""
HALFWAY: tuple[tuple[str, Mishap], ...] = (
    *(("successor", Mishap.KILL),) * 3, *(("acceptor", Mishap.KILL),) * 2, ("successor", Mishap.HANG),
    ("acceptor", Mishap.HANG), ("shard", Mishap.KILL), ("shard", Mishap.HANG), ("router", Mishap.KILL),
    ("supervisor", Mishap.HANG), ("supervisor", Mishap.UNFORKABLE), ("client", Mishap.CUT),
)  # fmt: skip
"""What may happen in the middle of a restart, and to whom."""


RINGED = 0.12
"""The share of plans with a ring of relays."""
RING_SECONDS, SEARCH_SECONDS = 2.5, 12.0
"""The least duration of a play with one, and of most of their lulls: until a deadlock arises, and until it is found."""
DEADLOCKS = [number for number, policy in enumerate(POLICIES) if policy is not None and "deadlock" in policy]
"""The policies that say what to do about a deadlock."""


def twisted(plan: Plan) -> Plan:
    """Return a plan with what it may have besides."""
    chance = Random(f"restarts {plan.seed}")
    if chance.random() < RESTARTED:
        plan = with_restarts(plan, chance)
    chance = Random(f"rings {plan.seed}")
    return with_ring(plan, chance) if chance.random() < RINGED else plan


def with_ring(plan: Plan, chance: Random) -> Plan:
    """Add relays each of which publishes to the queue from which the next one consumes, and a client that publishes to
    the first queue. What the queues do about a deadlock differs, and little may be kept for clients.
    """
    names = [f"ring{number}" for number in range(chance.choice([2, 2, 3]))]
    queues = [QueuePlan(name, chance.randrange(plan.shards), ring_limits(chance), bound=False) for name in names]
    pairs = list(zip(names, [*names[1:], names[0]], strict=True)) * chance.choice([1, 1, 2])
    first = len(plan.clients) + 1
    clients = [
        ClientPlan(
            number, Habit.RINGING, chance.randrange(plan.acceptors), 0.0, chance.random() < 0.5, source=source,
            target=target,
        )
        for number, (source, target) in enumerate(pairs, first)
    ]  # fmt: skip
    feeder = first + len(clients)
    clients.append(ClientPlan(feeder, Habit.CONFIRMING, chance.randrange(plan.acceptors), 0.0, False, target=names[0]))
    operations = [
        Operation(0.0, Deed.POLICY, name, chance.choice(DEADLOCKS)) for name in names if chance.random() < 0.4
    ]
    bounds = plan.bounds
    if not bounds.last_resort and chance.random() < 0.4:
        bounds = bounds._replace(last_resort=chance.choice(LAST_RESORTS))
    seconds, lull = max(plan.seconds, RING_SECONDS), plan.lull
    if lull is None and chance.random() < 0.7:
        lull = Lull(chance.uniform(seconds / 2, seconds), SEARCH_SECONDS)
    return replace(
        plan, queues=(*plan.queues, *queues), clients=(*plan.clients, *clients), bounds=bounds, lull=lull,
        operations=tuple(sorted([*plan.operations, *operations])), seconds=seconds,
    )  # fmt: skip


def ring_limits(chance: Random) -> dict[str, Any]:
    """Draw the limits of a queue in a ring."""
    stop = chance.choice([2, 4, 8])
    return {"qpid.flow_stop_count": stop, "qpid.flow_resume_count": chance.randrange(stop)}


def with_restarts(plan: Plan, chance: Random) -> Plan:
    """Add rolling restarts, and what happens meanwhile."""
    seconds = max(plan.seconds, RESTART_SECONDS)
    times = [chance.uniform(0, seconds / 2) for _ in range(chance.choice([1, 1, 2]))]
    restarts = [Operation(at, Deed.RESTART, plan.queues[0].name, 0) for at in times]
    deaths = chance.random() < 0.6
    faults = [halfway(at, plan, chance) for at in times for _ in range(chance.randint(1, 3) if deaths else 0)]
    return replace(
        plan, seconds=seconds, operations=tuple(sorted([*plan.operations, *restarts])),
        faults=tuple(sorted([*plan.faults, *faults])),
    )  # fmt: skip


def halfway(restart: float, plan: Plan, chance: Random) -> Fault:
    """Draw what happens in the middle of a restart that is asked for at a time: mostly once a successor has begun."""
    whose, mishap = chance.choice(HALFWAY)
    number = chance.randrange({"shard": plan.shards, "client": len(plan.clients)}.get(whose, plan.acceptors))
    role = whose
    if whose == "successor":
        role, number = "acceptor", number + plan.acceptors
    elif whose == "client":
        number += 1
    elif whose in ("router", "supervisor"):
        number = 0
    at = restart + chance.choice([0.2, 0.2, 0.4, 0.0]) + chance.uniform(0, chance.choice([0.003, 0.02, 0.5]))
    return Fault(at, mishap, role, number, chance.choice([0.01, 0.3, 3.0]))
