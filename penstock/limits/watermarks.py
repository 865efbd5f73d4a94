"""Watermarks: when a queue stops its producers, when it resumes them, and how much it may hold.

A queue has up to two dimensions, the count of its messages and their bytes. Marks in bytes count whole messages
(`Batch.whole`); limits under which messages are dropped or refused count bodies only. In each dimension a queue may
have a *limit*, and under flow control a *stop mark*, above which producers are stopped, and a *resume mark*, to which
the queue must drain before they resume. All are value types that cannot be built wrong: 0 <= resume <= stop < 2**63,
and a stop mark is never above its limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

Overflow: TypeAlias = Literal[
    "flow", "spill", "drop-head", "reject", "reject-publish", "reject-publish-dlx", "ring", "ring-strict", "last-value"
]
OVERFLOWS: tuple[Overflow, ...] = get_args(Overflow)
REJECTING: frozenset[Overflow] = frozenset({"reject", "reject-publish", "reject-publish-dlx", "ring-strict"})
"""The overflows that refuse publishes beyond the limit."""

NUMBER_MAX = 2**63 - 1

OVERSHOOT_SHARE = 16
OVERSHOOT_COUNT_MAX = 1024
OVERSHOOT_BYTES_MAX = 1024 * 1024
RESERVE_SHARE = 10
RESERVE_BYTES_MIN = 64 * 1024


class ArgumentError(ValueError):
    """An argument of a declaration that cannot be used.

    `argument` is its name; the text is the reason in RabbitMQ's format, to be appended to `invalid arg 'x-max-length'
    for queue 'q' in vhost 'v': `.
    """

    def __init__(self, argument: str, reason: str) -> None:
        super().__init__(reason)
        self.argument = argument


def _check_number(name: str, value: int) -> None:
    if not 0 <= value <= NUMBER_MAX:
        raise ValueError(f"{name} ({value}) is not between 0 and 2**63 - 1")


def depth_of_mark(depth: int, mark: int) -> str:
    """A depth and its stop mark as text; without a mark (0) the depth alone."""
    return f"{depth} of {mark}" if mark else str(depth)


def overshoot_of(depth: int) -> int:
    """How many messages a queue may exceed a target depth by, because they were in flight when it was reached."""
    return min(max(depth // OVERSHOOT_SHARE, 1), OVERSHOOT_COUNT_MAX)


@dataclass(frozen=True, slots=True)
class Marks:
    """Stop and resume marks of a queue, in messages and in bytes. A stop mark of 0 stops no producer."""

    stop_count: int = 0
    resume_count: int = 0
    stop_bytes: int = 0
    resume_bytes: int = 0

    NONE: ClassVar[Marks]

    def __post_init__(self) -> None:
        for name in self.__slots__:
            _check_number(name, getattr(self, name))
        for unit, stop, resume in (
            ("count", self.stop_count, self.resume_count),
            ("bytes", self.stop_bytes, self.resume_bytes),
        ):
            if resume > stop:
                raise ValueError(f"resume_{unit} ({resume}) is above stop_{unit} ({stop})")

    def __bool__(self) -> bool:
        return self.stop_count > 0 or self.stop_bytes > 0

    def saturated(self, was: bool, count: int, bytes: int) -> bool:
        """Whether to stop producers at this depth; `was` is the previous answer.

        Producers are stopped from the moment count or bytes rises above its stop mark until both are at or below their
        resume marks.
        """
        stop_count, stop_bytes = self.stop_count, self.stop_bytes
        if (stop_count and count > stop_count) or (stop_bytes and bytes > stop_bytes):
            return True
        return was and bool((stop_count and count > self.resume_count) or (stop_bytes and bytes > self.resume_bytes))

    def missing(self, count: int, bytes: int) -> float | None:
        """Messages that may still arrive before a stop mark is reached, assuming the average size of those present;
        None if no stop mark can be reached.
        """
        found = [float(self.stop_count - count)] if self.stop_count else []
        if self.stop_bytes and bytes:
            found.append((self.stop_bytes - bytes) * count / bytes)
        return max(min(found), 0.0) if found else None

    def excess(self, count: int, bytes: int) -> float:
        """Messages that must leave before the queue is at its resume marks, assuming their average size."""
        by_count = float(count - self.resume_count) if self.stop_count else 0.0
        by_bytes = (bytes - self.resume_bytes) * count / bytes if self.stop_bytes and bytes else 0.0
        return max(by_count, by_bytes, 0.0)

    @property
    def overshoot_count(self) -> int:
        """How many messages the depth may exceed the stop mark by, because they were in flight when it was reached."""
        return overshoot_of(self.stop_count) if self.stop_count else 0

    @property
    def overshoot_bytes(self) -> int:
        """How many bytes the depth may exceed the stop mark by, because they were in flight when it was reached."""
        share = self.stop_bytes // OVERSHOOT_SHARE
        return min(max(share, 1), OVERSHOOT_BYTES_MAX) if self.stop_bytes else 0

    @property
    def reserve_bytes(self) -> int:
        """How many bytes a priority lane may admit beyond `overshoot_bytes`."""
        return max(self.stop_bytes // RESERVE_SHARE, RESERVE_BYTES_MIN) if self.stop_bytes else 0

    def overshoot_bound(self, acceptors: int, reserve: int = 0) -> tuple[int, int]:
        """Messages and bytes by which the depth never exceeds the stop mark; in bytes, one message of each acceptor may
        come on top. Acceptors do not see each other's messages in flight (`acceptor.gates.queue_gate`). A priority lane
        adds its `reserve`, which all acceptors see (`acceptor.publishing.lanes`): it begins an overshoot above the
        mark.
        """
        times = 1 if acceptors == 1 else 2
        count = max(times * self.overshoot_count, acceptors) if self.stop_count else 0
        nbytes = times * self.overshoot_bytes
        if not reserve:
            return count, nbytes
        over, over_bytes = (
            each + (acceptors - 1) * max(2 * each // acceptors, 1) if each else 0
            for each in (self.overshoot_count, self.overshoot_bytes)
        )
        return max(count, over) + (reserve if self.stop_count else 0), max(nbytes, over_bytes) + self.reserve_bytes

    def shared_bound(self) -> tuple[int, int]:
        """The bound of `overshoot_bound` where several queues share the marks (`acceptor.gates.pools`): the first
        message, or byte, above a stop mark stops producers; in bytes, one message of each acceptor may come on top.
        """
        return int(self.stop_count > 0), int(self.stop_bytes > 0)


Marks.NONE = Marks()


@dataclass(frozen=True, slots=True)
class FlowDefaults:
    """The node's defaults for queues that name none: limits (0: none), and marks in percent of any limit."""

    max_count: int = 0
    max_bytes: int = 0
    stop_percent: int = 80
    resume_percent: int = 70

    def __post_init__(self) -> None:
        _check_number("max_count", self.max_count)
        _check_number("max_bytes", self.max_bytes)
        if not 1 <= self.stop_percent <= 100:
            raise ValueError(f"stop_percent ({self.stop_percent}) is not between 1 and 100")
        if not 0 <= self.resume_percent <= self.stop_percent:
            raise ValueError(f"resume_percent ({self.resume_percent}) is above stop_percent ({self.stop_percent})")

    def only_marks(self) -> FlowDefaults:
        """The same marks, without limits."""
        return FlowDefaults(stop_percent=self.stop_percent, resume_percent=self.resume_percent)


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The limits of a queue (None: no limit), what happens when it is full, and under "flow" where producers stop.

    Under "spill" the limits apply to the queue's messages in memory. A limit under "flow" has a stop mark, at or below
    it (a limit of 0 has one of 1: below that no message would ever pass); no other overflow has marks.
    """

    max_count: int | None
    max_bytes: int | None
    overflow: Overflow
    marks: Marks

    def __post_init__(self) -> None:
        if self.overflow not in OVERFLOWS:
            raise ValueError(f"no overflow is called {self.overflow!r}")
        if self.marks and self.overflow != "flow":
            raise ValueError(f"overflow {self.overflow!r} has no marks")
        for unit, limit, stop in (
            ("count", self.max_count, self.marks.stop_count),
            ("bytes", self.max_bytes, self.marks.stop_bytes),
        ):
            if limit is None:
                continue
            _check_number(f"max_{unit}", limit)
            if stop > max(1, limit):
                raise ValueError(f"stop_{unit} ({stop}) is above max_{unit} ({limit})")
            if not stop and self.overflow == "flow":
                raise ValueError(f"max_{unit} ({limit}) has no stop mark")

    def to_wire(self) -> list[Any]:
        """For the bus: max_count, max_bytes, overflow, stop_count, resume_count, stop_bytes, resume_bytes."""
        marks = self.marks
        return [
            self.max_count,
            self.max_bytes,
            self.overflow,
            marks.stop_count,
            marks.resume_count,
            marks.stop_bytes,
            marks.resume_bytes,
        ]

    @classmethod
    def from_wire(cls, fields: Sequence[Any]) -> Self:
        """The limits of a `to_wire` list."""
        max_count, max_bytes, overflow, *marks = fields
        return cls(max_count, max_bytes, overflow, Marks(*marks))


def overflow_on_wire(fields: Sequence[Any]) -> Overflow:
    """The overflow of a `QueueLimits.to_wire` list."""
    overflow: Overflow = fields[2]
    return overflow
