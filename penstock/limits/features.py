"""Features of a queue other than its limits, as its declaration (with its policy merged in) asks for.

Limits and marks are in `penstock.limits.watermarks`, decided in `penstock.limits.queue_limits`. Names and meanings of
the arguments are RabbitMQ's, except those of last-value queues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Self

from penstock.limits.ladder import FOREVER
from penstock.limits.means import AUTO
from penstock.text.amounts import size
from penstock.text.durations import seconds_of

ESSENTIAL = "x-essential"
UNCONSUMED = "never consumed from"
"""The reason why a queue is unprivileged (router/authority/standing.py) only until its first consumer."""
LAST_VALUE_KEYS = ("x-last-value-key", "qpid.last_value_queue_key")
LAST_VALUE_KEY = "qpid.LVQ_key"
"""The header that identifies a last-value queue's messages if its declaration names no other."""

LANE_RESERVE = 100
"""Messages; the default reserve of a priority lane."""

PACES = ("x-pace-depth", "x-pace-wait")
"""The arguments that pace a queue."""

DEADLOCK_ACTIONS = REPORT, CREDIT, SPILL, NACK = ("report", "credit", "spill", "nack")
"""Actions of a queue against a deadlock: report it; have its shard admit more, or spill; have an acceptor refuse the
producer that has been held for the shortest time.
"""


@dataclass(frozen=True, slots=True)
class QueueLane:
    """The priority lane of a queue: which messages may pass, by their priority or a pattern of routing keys, and how
    many of them beyond the stop mark (None: `LANE_RESERVE`). Without priority and key there is no lane.
    """

    priority: int | None = None
    key: str | None = None
    reserve: int | None = None


@dataclass(frozen=True, slots=True)
class QueueFeatures:
    """The features of one queue. Times are milliseconds; None: not asked for. `from_arguments` expects arguments that
    `router.authority.queue_arguments` has validated.

    `throttle` and `hold` are inherited like limits: `penstock.limits.queue_limits` decides them.
    `router.authority.standing` decides `essential`, `unprivileged_reason` (why the queue is unprivileged), `granted`
    (privileged by policy, whatever its bindings grant) and `chosen` (whether its declaration or its policy asks to hold
    producers).
    """

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
    max_rate: int | None = None
    max_rate_bytes: int | None = None
    rate_burst: int | None = None
    throttle: str = AUTO
    hold: str = FOREVER
    fair_by: str | None = None
    deadlock: str | None = None
    essential: bool = False
    unprivileged_reason: str | None = None
    pace_depth: int | None = None
    pace_wait: int | None = None
    lane: QueueLane = QueueLane()
    granted: bool = False
    chosen: bool = False

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        """Return the features that the arguments of a declaration ask for. A priority or delivery limit that limits
        nothing (0, or negative) becomes None.
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
            deadlock=arguments.get("x-deadlock"),
            max_rate=arguments.get("x-max-rate"),
            max_rate_bytes=nbytes(arguments.get("x-max-rate-bytes")),
            rate_burst=milliseconds(arguments.get("x-rate-burst")),
            fair_by=arguments.get("x-fair-by"),
            pace_depth=arguments.get("x-pace-depth"),
            pace_wait=milliseconds(arguments.get("x-pace-wait")),
            lane=QueueLane(
                arguments.get("x-lane-priority"), arguments.get("x-lane-key"), arguments.get("x-lane-reserve")
            ),
        )

    @property
    def paced(self) -> bool:
        """Whether the queue admits one message for each that leaves."""
        return bool(self.pace_depth or self.pace_wait)

    @property
    def reserve(self) -> int:
        """How many messages the queue's priority lane admits beyond the stop mark; 0 without a lane."""
        lane = self.lane
        return 0 if lane.priority is None and not lane.key else lane.reserve or LANE_RESERVE

    def to_wire(self) -> list[Any]:
        """The fields in their order, those of the lane in its place, for the bus and the store. A new field comes last,
        never into the lane: older lists would be misread.
        """
        return list(_values(self))

    @classmethod
    def from_wire(cls, values: Sequence[Any]) -> Self:
        """The features of a `to_wire` list; an older list may lack the last fields."""
        if len(values) <= _LANE.start:
            return cls(*values)
        lane = QueueLane(*values[_LANE])
        return cls(*[*values[: _LANE.start], lane, *values[_LANE.stop : len(_ON_WIRE)]])


_NAMES = [field.name for field in fields(QueueFeatures)]
_LANE = slice(_NAMES.index("lane"), _NAMES.index("lane") + len(fields(QueueLane)))
_ON_WIRE = _NAMES.copy()
_ON_WIRE[_LANE.start : _LANE.start + 1] = [f"lane.{field.name}" for field in fields(QueueLane)]
_values = attrgetter(*_ON_WIRE)
_TTL, _EXPIRES, _UNPRIVILEGED, _GRANTED = (
    _ON_WIRE.index(name) for name in ("message_ttl", "expires", "unprivileged_reason", "granted")
)


def unprivileged_reason_on_wire(values: Sequence[Any]) -> str | None:
    """`unprivileged_reason` of a `QueueFeatures.to_wire` list."""
    return values[_UNPRIVILEGED] if len(values) > _UNPRIVILEGED else None


def granted_on_wire(values: Sequence[Any]) -> bool:
    """`granted` of a `QueueFeatures.to_wire` list; False for an older list that lacks the field."""
    return len(values) > _GRANTED and bool(values[_GRANTED])


def message_ttl_on_wire(values: Sequence[Any]) -> int | None:
    """`message_ttl` of a `QueueFeatures.to_wire` list."""
    ttl: int | None = values[_TTL]
    return ttl


def expires_on_wire(values: Sequence[Any]) -> int | None:
    """`expires` of a `QueueFeatures.to_wire` list."""
    expires: int | None = values[_EXPIRES]
    return expires


def nbytes(value: int | str | None) -> int | None:
    """A size in bytes, given as a number or as a text with a unit."""
    return size(value) if isinstance(value, str) else value


def milliseconds(text: str | None) -> int | None:
    """A duration given as a text with a unit, in milliseconds."""
    return None if text is None else round(seconds_of(text) * 1000)


def _last_value_key(arguments: Mapping[str, Any]) -> str | None:
    named = next((str(arguments[name]) for name in LAST_VALUE_KEYS if name in arguments), None)
    return named or (LAST_VALUE_KEY if arguments.get("x-overflow") == "last-value" else None)
