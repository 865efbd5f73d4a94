"""What a queue does beside holding messages, as its declaration (and a policy, merged into it) asks.

Limits and marks are `penstock.watermarks`' to know; everything else that a shard or an acceptor must know of a queue
is here. Names and meanings of the arguments are RabbitMQ's, but for those of last-value queues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, Self

LAST_VALUE_KEYS = ("x-last-value-key", "qpid.last_value_queue_key")
LAST_VALUE_KEY = "qpid.LVQ_key"
"""The header by which messages of a last-value queue are told apart if its declaration names none."""


@dataclass(frozen=True, slots=True)
class QueueFeatures:
    """Times are milliseconds; None: not asked for. `from_arguments` takes what `router.queue_arguments` let pass."""

    type: str = "classic"
    message_ttl: int | None = None
    expires: int | None = None
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    max_priority: int | None = None
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    consumer_timeout: int | None = None
    last_value_key: str | None = None
    tx_when_full: str | None = None

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        """The features that arguments of a declaration ask for. A priority or delivery limit that limits nothing
        (0, or negative) is none.
        """
        delivery_limit = arguments.get("x-delivery-limit")
        return cls(
            type=arguments.get("x-queue-type", "classic"),
            message_ttl=arguments.get("x-message-ttl"),
            expires=arguments.get("x-expires"),
            dead_letter_exchange=arguments.get("x-dead-letter-exchange"),
            dead_letter_routing_key=arguments.get("x-dead-letter-routing-key"),
            max_priority=arguments.get("x-max-priority") or None,
            single_active_consumer=bool(arguments.get("x-single-active-consumer", False)),
            delivery_limit=None if delivery_limit is None or delivery_limit < 0 else delivery_limit,
            consumer_timeout=arguments.get("x-consumer-timeout"),
            last_value_key=_last_value_key(arguments),
            tx_when_full=arguments.get("x-tx-when-full"),
        )

    def to_wire(self) -> list[Any]:
        """For the bus and the store: the fields in their order."""
        return list(astuple(self))

    @classmethod
    def from_wire(cls, values: Sequence[Any]) -> Self:
        """The features of a `to_wire` list, be it an older one that lacks the last fields."""
        return cls(*values[: len(fields(cls))])


def _last_value_key(arguments: Mapping[str, Any]) -> str | None:
    named = next((str(arguments[name]) for name in LAST_VALUE_KEYS if name in arguments), None)
    return named or (LAST_VALUE_KEY if arguments.get("x-overflow") == "last-value" else None)
