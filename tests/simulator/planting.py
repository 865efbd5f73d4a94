"""How bugs are planted: each replaces methods of the product while a play lasts.

A bug that only shows with something rare `needs` that in the plan: other seeds are not played.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.simulator.plan import Deed, Habit, Mishap, Plan

Bug = Callable[..., Any]
Need = Callable[[Plan], bool]


class Plant(NamedTuple):
    """A bug: how to plant it, and whether a plan may show it."""

    planted: Callable[[], AbstractContextManager[Any]]
    needs: Need


def any_plan(plan: Plan) -> bool:
    """Whether a plan may show a bug that needs nothing rare: it may."""
    return True


def fault(*mishaps: Mishap, of: str) -> Need:
    """Return the need of one of some mishaps, of a role."""
    return lambda plan: any(each.role == of and each.mishap in mishaps for each in plan.faults)


def deed(*deeds: Deed) -> Need:
    """Return the need of one of some actions of operators."""
    return lambda plan: any(each.deed in deeds for each in plan.operations)


def death_beside_transactions(plan: Plan) -> bool:
    """Whether a shard may die while a transaction is on several."""
    transacts = any(each.habit in (Habit.TRANSACTING, Habit.TRANSACTING_RELAY) for each in plan.clients)
    return transacts and plan.shards > 1 and fault(Mishap.KILL, of="shard")(plan)


def ladder(plan: Plan) -> bool:
    """Whether a queue may have a ladder."""
    return any(plan.ladders(queue) for queue in plan.queues)


def refusal(plan: Plan) -> bool:
    """Whether a queue may refuse publishes."""
    return any(plan.refuses(queue) for queue in plan.queues)


def delays(plan: Plan) -> bool:
    """Whether messages may come late to a queue that keeps them."""
    return plan.delays and any(
        queue.bound and not plan.drops(queue) and not plan.refuses(queue) for queue in plan.queues
    )


def ring(plan: Plan) -> bool:
    """Whether relays form a ring, in a play with a time in which a deadlock is found."""
    return bool(plan.ring) and plan.lull is not None


def death_of_successor(plan: Plan) -> bool:
    """Whether a successor may be killed in a rolling restart."""
    killed = any(
        each.role == "acceptor" and each.number >= plan.acceptors and each.mishap is Mishap.KILL for each in plan.faults
    )
    return plan.renews and killed


class Plants(dict[str, Plant]):
    """Bugs by their names."""

    def plant(self, owner: type, *methods: str, needs: Need = any_plan) -> Callable[[Bug], Bug]:
        """Register a bug: the function replaces methods of a class, and gets the right one as its first argument."""

        def register(bug: Bug) -> Bug:
            @contextmanager
            def planted() -> Iterator[None]:
                with ExitStack() as replaced:
                    for method in methods:
                        replaced.enter_context(patch.object(owner, method, wrong_one(bug, getattr(owner, method))))
                    yield

            self[bug.__name__.replace("_", " ")] = Plant(planted, needs)
            return bug

        return register


def wrong_one(bug: Bug, right: Any) -> Callable[..., Any]:
    """Return the method that a bug puts in place of the right one."""

    def wrong(self: Any, *args: Any, **options: Any) -> Any:
        return bug(right, self, *args, **options)

    return wrong
