"""Whose queues may stop producers: those that somebody relies on, not those that any client may make and leave lying.

A queue is a *stranger* to those who publish to it if it is exclusive, named by the server, or deleted with its last
consumer. What its owner declares is then no reason to stop others: only a policy is, one of the queue or one that it
inherits, that says `overflow: flow` or `essential: true`. A queue that is not durable, and that nobody gave a limit of
its own, is one until it is consumed from. All others may stop producers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from penstock.asked import ARGUMENTS, OVERFLOW, RABBITMQ_LIMITS
from penstock.features import ESSENTIAL, PACES, UNCONSUMED
from router.inheritance import levels_of
from router.policy_keys import KEYS, spelled_out
from router.records import Policy, Queue
from router.topology import Topology

Said: TypeAlias = list[tuple[str, Mapping[str, Any]]]

SERVER_NAMED = "amq.gen-"
CHOICES = frozenset({OVERFLOW, *RABBITMQ_LIMITS, *ARGUMENTS, *PACES})
"""Arguments with which somebody gave a queue limits of its own."""


class Standing(NamedTuple):
    """Whether a queue may stop producers: `stranger` says why not (None: it may). An `essential` one stops them even
    where other queues that they publish to keep up. `source` is who says so, "" where it follows from what it is.
    """

    essential: bool
    stranger: str | None
    source: str


def standing_of(queue: Queue, topology: Topology, policy: Policy | None, operator: Policy | None) -> Standing:
    """`policy` and `operator` are those that govern the queue."""
    temporary = _temporary(queue)
    said = _said(policy, operator)
    policies = [*said, *((level.source, level.arguments) for level in levels_of(queue, topology))]
    declared: Said = [] if temporary else [("declaration", queue.arguments)]
    for source, arguments in (*declared, *policies):
        if ESSENTIAL in arguments:
            if arguments[ESSENTIAL]:
                return Standing(True, None, f"{source}: {'x-' * (source == 'declaration')}essential")
            break
    if temporary is not None:
        for source, arguments in policies:
            if arguments.get(OVERFLOW) == "flow":
                return Standing(False, None, f"{source}: overflow")
        return Standing(False, temporary, "")
    chosen = any(not CHOICES.isdisjoint(arguments) for _, arguments in (*declared, *said))
    return Standing(False, None if queue.durable or chosen else UNCONSUMED, "")


def _temporary(queue: Queue) -> str | None:
    if queue.owner is not None:
        return "exclusive queue"
    if queue.name.startswith(SERVER_NAMED):
        return "server-named queue"
    return "auto-delete queue" if queue.auto_delete else None


def _said(policy: Policy | None, operator: Policy | None) -> Said:
    """What the policies of a queue say, as arguments of a declaration; an operator's before others."""
    both = ((operator, "operator policy"), (policy, "policy"))
    return [
        (f"{sort} '{each.name}'", {KEYS[key].argument: value for key, value in spelled_out(each.definition).items()
                                   if key in KEYS})
        for each, sort in both
        if each is not None
    ]  # fmt: skip
