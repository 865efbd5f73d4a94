"""Arguments of basic.consume. Order and texts are RabbitMQ's; unknown arguments are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.amqp.errors import amqp_error
from penstock.amqp.values import type_name
from penstock.limits.features import QueueFeatures
from router.model.topology import Queue

# The types of queue that take an argument; streams are not consumed from here.
TYPES = {
    "x-priority": ("classic", "quorum"),
    "x-cancel-on-ha-failover": ("classic",),
    "x-stream-offset": (),
}


Lease = tuple[str, int, str]
"""Id; how long the lease outlives its consumer, in microseconds; `ack` or `requeue` to end the lease, or nothing."""

LEASE_ENDS: Final = ("ack", "requeue")
LEASE_LASTS: Final = 3_600_000
LEASE_LEAST, LEASE_MOST = 1_000, 7 * 24 * 3_600_000
"""Milliseconds."""
LEASE_ID_MOST: Final = 255


def consumer_priority(queue: Queue, arguments: Mapping[str, Any]) -> int:
    """Return the priority that a consumer asks for, 0 if none. 406 if the queue cannot have such a consumer."""
    kind = QueueFeatures.from_wire(queue.features).type
    for name, types in TYPES.items():
        if name not in arguments:
            continue
        if kind not in types:
            raise amqp_error(406, f"invalid arg '{name}' for {queue} of queue type rabbit_{kind}_queue")
        reason = _reason(name, arguments[name])
        if reason is not None:
            raise amqp_error(406, f"invalid arg '{name}' for {queue}: {reason}")
    return int(arguments.get("x-priority", 0))


def _reason(name: str, value: object) -> str | None:
    """Return why a value is invalid, None if it is valid. x-cancel-on-ha-failover has no effect but must be a bool."""
    given = type_name(value)
    if name == "x-priority":
        return None if given in ("signedint", "long") else f'"expected integer, got {given}"'
    return None if given == "bool" else f"{{unacceptable_type,{given}}}"


def lease_of(queue: Queue, arguments: Mapping[str, Any], no_ack: bool) -> Lease | None:
    """Return the lease that x-lease and its related arguments ask for. 406 if the queue cannot grant it, or not for so
    long.
    """
    for name in ("x-lease", "x-lease-expires", "x-lease-end"):
        if name in arguments:
            reason = _lease_reason(name, queue, arguments, no_ack)
            if reason is not None:
                raise amqp_error(406, f"invalid arg '{name}' for {queue}: {reason}")
    if "x-lease" not in arguments:
        return None
    return arguments["x-lease"], arguments.get("x-lease-expires", LEASE_LASTS) * 1000, arguments.get("x-lease-end", "")


def _lease_reason(name: str, queue: Queue, arguments: Mapping[str, Any], no_ack: bool) -> str | None:
    """Return why a value is invalid, None if it is valid."""
    value = arguments[name]
    if "x-lease" not in arguments:
        return "there is no x-lease"
    if name == "x-lease":
        if not isinstance(value, str) or not 0 < len(value.encode("utf-8", "surrogateescape")) <= LEASE_ID_MOST:
            return f"expected a text of 1 to {LEASE_ID_MOST} bytes"
        if no_ack:
            return "nothing is in hand without acks"
        return "the queue has priorities" if QueueFeatures.from_wire(queue.features).max_priority else None
    if name == "x-lease-end":
        return None if value in LEASE_ENDS else f"expected {' or '.join(LEASE_ENDS)}"
    if type_name(value) not in ("signedint", "long") or not LEASE_LEAST <= value <= LEASE_MOST:
        return f"expected {LEASE_LEAST} to {LEASE_MOST} milliseconds"
    return None
