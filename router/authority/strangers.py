"""Whose queues may stop producers: those that somebody relies on, not those that any client may make and leave lying.

A queue is a *stranger* to those who publish to it if it is exclusive, named by the server, or deleted with its last
consumer. What its owner declares is then no reason to stop others: only a policy is, one of the queue or one that it
inherits, that says `essential: true`, or by its `overflow` that producers are held or refused. A queue that is not
durable, and that neither its declaration nor its policy gives a limit, nor an inherited policy such an overflow, is one
until it is consumed from. All others may stop those who publish to them by name, and those who come by a binding that
grants it (router/model/grants.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from penstock.limits.features import ESSENTIAL, PACES, UNCONSUMED
from penstock.limits.queue_limits import ARGUMENTS, FLOW, NUMBERS, OVERFLOW, POLICY_TYPE, RABBITMQ_LIMITS
from penstock.limits.watermarks import REJECTING
from router.authority.inheritance import levels_of
from router.model.policy_keys import KEYS, spelled_out
from router.model.records import Policy, Queue
from router.model.topology import Topology

Said: TypeAlias = list[tuple[str, Mapping[str, Any]]]

SERVER_NAMED = "amq.gen-"
CHOICES = frozenset({OVERFLOW, *RABBITMQ_LIMITS, *ARGUMENTS, *PACES})
"""Arguments with which somebody gave a queue limits of its own."""
HOLDING = frozenset({OVERFLOW, FLOW, POLICY_TYPE, *NUMBERS, *PACES})
"""Arguments with which somebody says that a queue holds its producers, and from where on."""
POWERS = frozenset({"flow", *REJECTING})
"""Overflows under which producers are held or refused."""


class Standing(NamedTuple):
    """Whether a queue may stop producers: `stranger` says why not (None: it may). An `essential` one stops them even
    where other queues that they publish to keep up, and so does one that was `chosen` to, unless a policy says which
    part of them has to lag. One that is `granted` by policy needs no binding that grants it. `source` is who says so,
    "" where it follows from what it is.
    """

    essential: bool
    stranger: str | None
    source: str
    granted: bool = False
    chosen: bool = False


def standing_of(queue: Queue, topology: Topology, policy: Policy | None, operator: Policy | None) -> Standing:
    """`policy` and `operator` are those that govern the queue."""
    temporary = _temporary(queue)
    said = _said(policy, operator)
    inherited: Said = [(level.source, level.arguments) for level in levels_of(queue, topology)]
    policies = [*said, *inherited]
    declared: Said = [] if temporary else [("declaration", queue.arguments)]
    granting = _first_granting(queue, said)
    chosen = any(not HOLDING.isdisjoint(arguments) for _, arguments in (*declared, *said))
    for source, arguments in (*declared, *policies):
        if ESSENTIAL in arguments:
            if arguments[ESSENTIAL]:
                granted = source != "declaration" or granting is not None or _is_essential(policies)
                return Standing(True, None, f"{source}: {'x-' * (source == 'declaration')}essential", granted, chosen)
            break
    inheriting = next((source for source, arguments in inherited if arguments.get(OVERFLOW) in POWERS), None)
    if temporary is not None:
        who = granting or inheriting
        return Standing(False, None if who else temporary, f"{who}: overflow" if who else "", granting is not None,
                        chosen)  # fmt: skip
    limited = any(not CHOICES.isdisjoint(arguments) for _, arguments in (*declared, *said))
    stranger = None if queue.durable or limited or inheriting else UNCONSUMED
    return Standing(False, stranger, "", granting is not None, chosen)


def _first_granting(queue: Queue, said: Said) -> str | None:
    """Which policy of the queue says by its overflow that producers are held or refused, and is not overruled."""
    for source, arguments in said:
        if arguments.get(OVERFLOW) in POWERS:
            return source if queue.arguments.get(OVERFLOW, arguments[OVERFLOW]) == arguments[OVERFLOW] else None
    return None


def _is_essential(policies: Said) -> bool:
    """Whether the nearest policy that says anything of it says that the queue is essential."""
    return next((bool(arguments[ESSENTIAL]) for _, arguments in policies if ESSENTIAL in arguments), False)


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
