"""The standing of queues: which of them may stop producers, and which are unprivileged (`unprivileged_reason`).

A queue that is exclusive, server-named or auto-delete is unprivileged: any client may make one and abandon it, so its
declaration is no reason to stop the producers of others. Only a policy is, the queue's own or an inherited one, that
sets `essential: true`, or an `overflow` that holds or refuses producers. A queue that is not durable, and has neither a
limit by its declaration or its policy nor such an overflow by an inherited policy, is unprivileged until it is consumed
from. Any other queue may stop producers that publish to it by name, or through a binding that grants it
(router/model/grants.py). A delay queue may stop those that publish to its exchange.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from penstock.limits.features import ESSENTIAL, PACES, UNCONSUMED
from penstock.limits.queue_limits import ARGUMENTS, FLOW, NUMBERS, OVERFLOW, POLICY_TYPE, RABBITMQ_LIMITS, Level
from penstock.limits.watermarks import REJECTING
from router.model.delaying import is_delay_queue
from router.model.policy_keys import KEYS, spelled_out
from router.model.records import Policy, Queue

SourcedArguments: TypeAlias = list[tuple[str, Mapping[str, Any]]]

SERVER_NAMED = "amq.gen-"
CHOICES = frozenset({OVERFLOW, *RABBITMQ_LIMITS, *ARGUMENTS, *PACES})
"""Arguments that give a queue limits of its own."""
HOLDING = frozenset({OVERFLOW, FLOW, POLICY_TYPE, *NUMBERS, *PACES})
"""Arguments by which a queue is chosen to hold its producers, or from which depth on."""
POWERS = frozenset({"flow", *REJECTING})
"""Overflows under which producers are held or refused."""


class Standing(NamedTuple):
    """Whether a queue may stop producers; `unprivileged_reason` says why not (None: it may). An `essential` queue stops
    them even if their other queues keep up; so does one that is `chosen` to, unless a policy sets which part of the
    queues must lag. One that is `granted` the power by policy needs no binding that grants it. `source` names the
    declaration or the policy that decides, "" if the kind of queue does.
    """

    essential: bool
    unprivileged_reason: str | None
    source: str
    granted: bool = False
    chosen: bool = False


def standing_of(queue: Queue, policy: Policy | None, operator: Policy | None, levels: Iterable[Level]) -> Standing:
    """Return the standing of a queue; `policy` and `operator` are those that govern it, `levels` those that it inherits
    from.
    """
    said = _policy_arguments(policy, operator)
    if is_delay_queue(queue.name):
        chosen = any(not HOLDING.isdisjoint(each) for each in (queue.arguments, *(given for _, given in said)))
        return Standing(False, None, "", True, chosen)
    temporary = _temporary(queue)
    inherited: SourcedArguments = [(level.source, level.arguments) for level in levels]
    policies = [*said, *inherited]
    declared: SourcedArguments = [] if temporary else [("declaration", queue.arguments)]
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
    unprivileged_reason = None if queue.durable or limited or inheriting else UNCONSUMED
    return Standing(False, unprivileged_reason, "", granting is not None, chosen)


def _first_granting(queue: Queue, said: SourcedArguments) -> str | None:
    """Return the policy of a queue whose overflow holds or refuses producers; None if the declaration overrules it."""
    for source, arguments in said:
        if arguments.get(OVERFLOW) in POWERS:
            return source if queue.arguments.get(OVERFLOW, arguments[OVERFLOW]) == arguments[OVERFLOW] else None
    return None


def _is_essential(policies: SourcedArguments) -> bool:
    """Whether the nearest policy that sets `essential` sets it to true."""
    return next((bool(arguments[ESSENTIAL]) for _, arguments in policies if ESSENTIAL in arguments), False)


def _temporary(queue: Queue) -> str | None:
    if queue.owner is not None:
        return "exclusive queue"
    if queue.name.startswith(SERVER_NAMED):
        return "server-named queue"
    return "auto-delete queue" if queue.auto_delete else None


def _policy_arguments(policy: Policy | None, operator: Policy | None) -> SourcedArguments:
    """Return the settings of a queue's policies as arguments of a declaration, the operator policy first."""
    both = ((operator, "operator policy"), (policy, "policy"))
    return [
        (f"{sort} '{each.name}'", {KEYS[key].argument: value for key, value in spelled_out(each.definition).items()
                                   if key in KEYS})
        for each, sort in both
        if each is not None
    ]  # fmt: skip
