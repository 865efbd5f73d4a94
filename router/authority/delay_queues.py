"""The arguments of delay queues (router/model/delaying.py), from those of their exchanges."""

from __future__ import annotations

from penstock.limits.queue_limits import ARGUMENTS, OVERFLOW, POLICY_TYPE, RABBITMQ_LIMITS, asked_limits
from penstock.limits.watermarks import ArgumentError, FlowDefaults
from router.authority.queue_arguments import invalid
from router.model.delaying import DELAY_QUEUE
from router.model.records import Arguments, Exchange

OVERFLOWS = ("flow", "reject", "reject-publish", "drop-head", "ring", "spill")
"""Without those that need consumers, keys or a dead-letter exchange."""
LIMITS = frozenset({*RABBITMQ_LIMITS, *ARGUMENTS, OVERFLOW} - {POLICY_TYPE})
"""The arguments of an exchange that are its delay queue's."""


def delay_queue_arguments(exchange: Exchange, defaults: FlowDefaults) -> Arguments:
    """Return the arguments of the delay queue of an exchange; 406 if its limits are invalid."""
    limits = {name: value for name, value in exchange.arguments.items() if name in LIMITS}
    try:
        overflow = asked_limits(limits, defaults.only_marks()).overflow
        if overflow not in OVERFLOWS:
            raise ArgumentError(OVERFLOW, "invalid_overflow")
    except ArgumentError as error:
        raise invalid(error.argument, exchange, str(error)) from None
    return {**limits, "x-queue-type": DELAY_QUEUE}
