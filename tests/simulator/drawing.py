"""What a seed draws: a plan."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from router.model.policy_keys import LAST_RESORTS
from shard.dead_letters.burial import KEPT_BACK
from tests.simulator.bounds import FAR, Bounds
from tests.simulator.plan import (
    DEAD,
    SHORT_SECONDS,
    ClientPlan,
    Deed,
    Fault,
    Habit,
    Lull,
    Mishap,
    Operation,
    Plan,
    QueuePlan,
    Storm,
)
from tests.simulator.twists import twisted

LIMITS: tuple[dict[str, Any], ...] = (
    {}, {"qpid.flow_stop_count": 8, "qpid.flow_resume_count": 4},
    {"qpid.flow_stop_size": 20_000, "qpid.flow_resume_size": 8_000},
    {"qpid.flow_stop_count": 40, "qpid.flow_resume_count": 0}, {"x-max-length": 12, "x-overflow": "reject-publish"},
    {"x-max-length": 10}, {"x-max-length": 6, "x-overflow": "reject-publish-dlx"}, {"x-pace-depth": 6},
    {"x-max-rate": 400, "x-rate-burst": "100 ms"},
    {"qpid.flow_stop_count": 8, "x-hold": "withhold 50 ms, park 50 ms, reject"},
)  # fmt: skip
TRAITS: tuple[dict[str, Any], ...] = (
    {"x-message-ttl": 20}, {"x-message-ttl": 500}, {"x-message-ttl": 600_000}, {"x-max-priority": 3},
    {"x-single-active-consumer": True}, {"x-queue-type": "quorum", "x-delivery-limit": 2},
)  # fmt: skip
BURIES = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}


MISHAPS = {
    "shard": (Mishap.KILL, Mishap.KILL, Mishap.HANG), "acceptor": (Mishap.KILL, Mishap.HANG),
    "router": (Mishap.KILL, Mishap.KILL, Mishap.HANG), "console": (Mishap.KILL, Mishap.HANG),
    "router disk": (Mishap.FULL,),
    "disk": (
        Mishap.HANG, Mishap.FULL, Mishap.FULL, Mishap.UNFLUSHABLE, Mishap.LIES, Mishap.ROT, Mishap.MISDIRECT,
        Mishap.LOSE_WRITE,
    ),
    "client": (Mishap.CUT,), "supervisor": (Mishap.HANG, Mishap.UNFORKABLE),
    "machine": (Mishap.POWER, Mishap.SET_CLOCK),
}  # fmt: skip
"""The possible mishaps of each role, equally likely."""
WEIGHTS = {
    "shard": 3,
    "acceptor": 3,
    "router": 1,
    "router disk": 1,
    "console": 0.5,
    "disk": 3,
    "client": 2,
    "machine": 1,
}
"""How often something happens to whom."""
HABITS = (
    *(Habit.CONSUMING,) * 6, *(Habit.CONFIRMING,) * 4, *(Habit.PLAIN,) * 3, *(Habit.TRANSACTING,) * 3,
    *(Habit.GETTING,) * 2, *(Habit.LEASING,) * 2, *(Habit.RELAYING,) * 2,
    Habit.TRANSACTING_RELAY, Habit.DECLARING, Habit.HOSTILE,
)  # fmt: skip


RESHARDING = (Deed.ADD_SHARD, Deed.DRAIN, Deed.UNDRAIN, Deed.REMOVE)
ALONE = [each for each in Deed if each not in (*RESHARDING, Deed.RESTART)]
"""What operators do that needs nothing else of the plan."""


def draw(seed: int) -> Plan:
    """Return the plan of a seed."""
    chance = Random(f"plan {seed}")
    shards, acceptors = chance.choice([1, 2, 2, 3]), chance.choice([1, 1, 2, 3])
    (seconds,) = chance.choices((SHORT_SECONDS, 0.5, 1.5, 5.0), (10, 7, 2, 1))
    stores = chance.random() < 0.7
    queues = [queue(number, shards, stores, chance) for number in range(chance.randint(1, 5))]
    if any(each.buries for each in queues):
        queues.append(QueuePlan(DEAD, chance.randrange(shards), chance.choice(LIMITS[:4]), bound=False))
    clients = tuple(client(number, acceptors, seconds, chance) for number in range(1, chance.randint(3, 8)))
    spare = chance.choice([0, 0, 1])
    sizes = {
        "shard": shards,
        "acceptor": acceptors,
        "router": 1,
        "router disk": 1,
        "disk": shards,
        "client": len(clients),
        "machine": 1,
    }
    if not stores:
        del sizes["machine"], sizes["disk"]
    deaths = chance.random() < 0.6
    faults = [fault(seconds, sizes, chance) for _ in range(chance.randint(1, 5) if deaths else 0)]
    operations = [operation(seconds, queues, chance) for _ in range(chance.choice([0, 0, 3, 9]))]
    if spare:
        operations += [resharding(seconds, queues, chance) for _ in range(chance.choice([0, 2, 6]))]
        operations += retirement(seconds, queues, chance)
    if deaths:
        faults += [during(each, sizes, chance) for each in operations if each.deed is Deed.MOVE]
        faults += [slow_disk(each, chance) for each in faults if each.role == "shard" and chance.random() < 0.5]
        faults += [death_after(each, chance) for each in faults if each.mishap is Mishap.FULL]
        faults += above(seconds, faults, Random(f"supervisor {seed}"))
    seconds = max([seconds, *(each.at + each.seconds for each in faults if each.role == "client")])
    storms = [storm(seconds, chance) for _ in range(chance.randint(0, 2))]
    lull = None
    if chance.random() < 0.25:
        lull = Lull(chance.uniform(0, seconds), chance.choice([*(8.0,) * 8, 60.0, 2000.0, 8000.0]))
    if lull is not None and lull.seconds >= 60.0:
        clients = tuple(each._replace(heartbeat=each.heartbeat * 600) for each in clients)
    memory, last_resort = chance.choice([FAR, FAR, 400_000]), chance.choice(["", "", "", *LAST_RESORTS])
    if last_resort and lull is None and chance.random() < 0.5:
        lull = Lull(chance.uniform(0, seconds), 30.0)
    if last_resort:
        relays = [each for each in clients if chance.random() < 0.4]
        clients = tuple(each._replace(habit=Habit.RELAYING) if each in relays else each for each in clients)
    clients = sharing(clients, chance)
    if last_resort:
        numbers = range(len(clients) + 1, len(clients) + chance.randint(1, 4))
        clients += tuple(attacker(number, acceptors, seconds, chance) for number in numbers)
    kept_back = Random(f"kept back {seed}").choice([KEPT_BACK, 1_000])
    bounds = Bounds(memory, last_resort, chance.choice([FAR, FAR, 20_000]), kept_back)
    plan = Plan(
        seed, acceptors, shards, stores, tuple(queues), clients, tuple(sorted(faults)), tuple(sorted(operations)),
        tuple(sorted(storms)), seconds, lull, bounds, spare,
        chance.choice([None, None, 0, 50]), Random(f"delays {seed}").random() < 0.25,
    )  # fmt: skip
    return twisted(plan)


def queue(number: int, shards: int, stores: bool, chance: Random) -> QueuePlan:
    """Draw a queue. One of type quorum is durable."""
    arguments = dict(chance.choice(LIMITS))
    if chance.random() < 0.3:
        trait = chance.choice(TRAITS)
        if stores or "x-queue-type" not in trait:
            arguments |= trait
    if chance.random() < 0.3 or arguments.get("x-overflow") == "reject-publish-dlx":
        arguments |= BURIES
    bound = chance.random() < 0.5
    return QueuePlan(f"q{number}", chance.randrange(shards), arguments, bound, bound and chance.random() < 0.3)


def client(number: int, acceptors: int, seconds: float, chance: Random) -> ClientPlan:
    """Draw a client."""
    arrives = 0.0 if chance.random() < 0.6 else chance.uniform(0, seconds / 2)
    habit = chance.choice(HABITS)
    obeys = chance.random() < 0.5
    return ClientPlan(number, habit, chance.randrange(acceptors), arrives, obeys, chance.choice([0, 0, 1, 4]))


def sharing(clients: Sequence[ClientPlan], chance: Random) -> tuple[ClientPlan, ...]:
    """Have some clients share the connection of an earlier one."""
    plans: list[ClientPlan] = []
    for each in clients:
        hosts = [one for one in plans if not one.guest_of and one.habit is not Habit.HOSTILE]
        shares = each.habit is not Habit.HOSTILE and hosts and chance.random() < 0.25
        plans.append(each._replace(guest_of=chance.choice(hosts).number) if shares else each)
    return tuple(plans)


def attacker(number: int, acceptors: int, seconds: float, chance: Random) -> ClientPlan:
    """Draw a client that attacks memory."""
    return client(number, acceptors, seconds, chance)._replace(habit=Habit.ATTACKING, heartbeat=0)


def fault(seconds: float, sizes: dict[str, int], chance: Random) -> Fault:
    """Draw a fault; `sizes` has how many there are of each role."""
    (role,) = chance.choices([*sizes], [WEIGHTS[role] for role in sizes])
    number = chance.randrange(sizes[role]) + (role == "client")
    mishap = chance.choice(MISHAPS[role])
    lasts: tuple[float, ...] = (0.01, 0.3, 1.0)
    if role == "client":
        lasts = (0.01, 1.0, 5.0, 12.0)
    elif mishap is Mishap.HANG:
        lasts = (0.01, 0.3, 1.0, 6.0)
    if seconds == SHORT_SECONDS and role != "client":
        lasts = tuple(min(each, SHORT_SECONDS) for each in lasts)
    return Fault(chance.uniform(0, seconds), mishap, role, number, chance.choice(lasts))


def during(operation: Operation, sizes: dict[str, int], chance: Random) -> Fault:
    """Draw a death in the middle of what an operator has begun."""
    soon = chance.choice([0.0005, 0.005, 0.05])
    death = fault(0.0, sizes, chance)
    while Mishap.KILL not in MISHAPS[death.role]:
        death = fault(0.0, sizes, chance)
    return death._replace(at=operation.at + chance.uniform(0, soon), mishap=Mishap.KILL)


def slow_disk(death: Fault, chance: Random) -> Fault:
    """Draw a hang of the disk before the death of its shard."""
    return Fault(max(death.at - chance.uniform(0, 0.1), 0.0), Mishap.HANG, "disk", death.number, 0.2)


def death_after(full: Fault, chance: Random) -> Fault:
    """Draw the death of a shard whose disk was full, once that has room again."""
    return Fault(full.at + full.seconds + chance.uniform(0, 0.1), Mishap.KILL, "shard", full.number, 0.3)


def above(seconds: float, faults: Sequence[Fault], chance: Random) -> list[Fault]:
    """Draw what happens to the supervisor while it should notice a death, and start a process."""
    deaths = [each for each in faults if each.mishap is Mishap.KILL]
    if not deaths or chance.random() < 0.7:
        return []
    mishap, lasts = chance.choice(MISHAPS["supervisor"]), chance.choice([0.01, 0.3, 1.0, 6.0])
    if seconds == SHORT_SECONDS:
        lasts = min(lasts, SHORT_SECONDS)
    return [Fault(max(chance.choice(deaths).at - chance.uniform(0, lasts), 0.0), mishap, "supervisor", 0, lasts)]


def operation(seconds: float, queues: Sequence[QueuePlan], chance: Random) -> Operation:
    """Draw an operator's action."""
    deed = chance.choice([*ALONE, Deed.LIFT, Deed.MOVE])
    return Operation(chance.uniform(0, seconds), deed, chance.choice(queues).name, chance.randrange(1000))


def resharding(seconds: float, queues: Sequence[QueuePlan], chance: Random) -> Operation:
    """Draw an operator's change of the shards."""
    return operation(seconds, queues, chance)._replace(deed=chance.choice([*RESHARDING, Deed.ADD_SHARD, Deed.REMOVE]))


def retirement(seconds: float, queues: Sequence[QueuePlan], chance: Random) -> list[Operation]:
    """Draw the end of a shard: another is added, this one drained, and removed, too soon or not."""
    end = operation(seconds, queues, chance)._replace(deed=Deed.REMOVE)
    times = sorted(chance.uniform(0, end.at) for _ in range(2))
    before = [end._replace(at=at, deed=deed) for at, deed in zip(times, (Deed.ADD_SHARD, Deed.DRAIN), strict=True)]
    return [*before, end, end._replace(at=seconds)]


def storm(seconds: float, chance: Random) -> Storm:
    """Draw a storm."""
    begins = chance.uniform(0, seconds)
    return Storm(begins, begins + chance.uniform(0.1, seconds / 2), chance.choice([10.0, 100.0, 1000.0]))
