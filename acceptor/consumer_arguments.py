"""What a basic.consume may say in its arguments. Order and texts are RabbitMQ's; unknown ones are let pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.amqp.errors import amqp_error
from penstock.amqp.values import type_name
from penstock.features import QueueFeatures
from router.topology import Queue

# For which types of queue an argument is; streams are not consumed from here.
TYPES = {
    "x-priority": ("classic", "quorum"),
    "x-cancel-on-ha-failover": ("classic",),
    "x-stream-offset": (),
}


def consumer_priority(queue: Queue, arguments: Mapping[str, Any]) -> int:
    """The priority that a consumer asks for, 0 if it names none. 406 unless the queue can have such a consumer."""
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
    """Why a value cannot be, None if it can. x-cancel-on-ha-failover has no effect but is a bool."""
    given = type_name(value)
    if name == "x-priority":
        return None if given in ("signedint", "long") else f'"expected integer, got {given}"'
    return None if given == "bool" else f"{{unacceptable_type,{given}}}"
