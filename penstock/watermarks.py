"""Watermarks: when a queue stops its producers, when it lets them go, and what its declaration may say about both.

A queue has up to two dimensions, the count of its messages and the bytes of their contents. In each it may have a
*limit*, and under flow control a *stop mark*, above which producers are stopped, and a *resume mark*, down to which it
must drain before they go on. All are value types that cannot be built wrong: 0 <= resume <= stop < 2**63, and a stop
mark is never above its limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, cast, get_args

from penstock.amqp.values import type_name
from penstock.features import LAST_VALUE_KEYS

Overflow: TypeAlias = Literal[
    "flow", "drop-head", "reject-publish", "reject-publish-dlx", "ring", "ring-strict", "last-value"
]
OVERFLOWS: tuple[Overflow, ...] = get_args(Overflow)
REJECTING: frozenset[Overflow] = frozenset({"reject-publish", "reject-publish-dlx", "ring-strict"})
"""Those under which publishes beyond the limit are refused."""

NUMBER_MAX = 2**63 - 1
DIGITS_MAX = len(str(NUMBER_MAX))

OVERSHOOT_SHARE = 16
OVERSHOOT_COUNT_MAX = 1024
OVERSHOOT_BYTES_MIN = 64 * 1024
OVERSHOOT_BYTES_MAX = 2 * 1024 * 1024


class ArgumentError(ValueError):
    """An argument of a declaration that cannot be used.

    `argument` is its name; the text is the reason in RabbitMQ's manner, as it follows
    `invalid arg 'x-max-length' for queue 'q' in vhost 'v': `.
    """

    def __init__(self, argument: str, reason: str) -> None:
        super().__init__(reason)
        self.argument = argument


def _check_number(name: str, value: int) -> None:
    if not 0 <= value <= NUMBER_MAX:
        raise ValueError(f"{name} ({value}) is not between 0 and 2**63 - 1")


@dataclass(frozen=True, slots=True)
class Marks:
    """Stop and resume marks of a queue, in messages and in bytes. A stop mark of 0: that dimension stops nobody."""

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
        """Whether producers are to be stopped at this depth, `was` being the answer before.

        They are from the moment count or bytes rises above its stop mark until both are at or below their resume marks.
        """
        stop_count, stop_bytes = self.stop_count, self.stop_bytes
        if (stop_count and count > stop_count) or (stop_bytes and bytes > stop_bytes):
            return True
        return was and bool((stop_count and count > self.resume_count) or (stop_bytes and bytes > self.resume_bytes))

    @property
    def overshoot_count(self) -> int:
        """How many messages the depth may be above the stop mark, because they were under way when it was reached."""
        return min(max(self.stop_count // OVERSHOOT_SHARE, 1), OVERSHOOT_COUNT_MAX) if self.stop_count else 0

    @property
    def overshoot_bytes(self) -> int:
        """How many bytes the depth may be above the stop mark, because they were under way when it was reached."""
        share = self.stop_bytes // OVERSHOOT_SHARE
        return min(max(share, OVERSHOOT_BYTES_MIN), OVERSHOOT_BYTES_MAX) if self.stop_bytes else 0


Marks.NONE = Marks()


@dataclass(frozen=True, slots=True)
class FlowDefaults:
    """What a node gives queues that say nothing themselves: limits (0: none), and marks in percent of any limit."""

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


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What a queue may hold (None: no limit), what happens when it is full, and under "flow" where producers stop.

    A limit under "flow" has a stop mark, at or below it (a limit of 0 one of 1: below that nothing ever moves); no
    other overflow has marks.
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

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, object], defaults: FlowDefaults, *, adapt: bool = False) -> Self:
        """The limits a queue.declare asks for. ArgumentError names the argument that cannot be used.

        - `x-max-length`, `x-max-length-bytes` with `x-overflow` absent or "drop-head", "reject-publish",
          "reject-publish-dlx": RabbitMQ's meaning, no marks; with "flow": marks at percentages of the limit.
        - "ring" drops the oldest ready messages, "ring-strict" as well but refuses a publish while the oldest is
          unacked, and counts what is unacked; "last-value" (or `qpid.last_value_queue_key`) conflates by a key and
          drops the oldest beyond a limit.
        - `qpid.max_count`, `qpid.max_size` (0: none), `qpid.flow_stop_count`, `qpid.flow_resume_count`,
          `qpid.flow_stop_size`, `qpid.flow_resume_size` (Qpid C++), `x-qpid-capacity` (a stop mark in bytes) and
          `x-qpid-flow-resume-capacity` (Qpid Java) mean flow where `x-overflow` is absent. A stop mark of 0 stops at
          the limit itself, or not at all where there is none.
        - Where several name the same thing the smallest number counts, as in RabbitMQ between argument and policy.
        - With neither limit nor stop mark the node's defaults apply, under flow unless `x-overflow` says otherwise.

        With `adapt` a mark that does not go with the rest, because that comes from a policy or a setting, is lowered
        to it, or left out under another overflow than flow.
        """
        count, octets = (_Asked.read(dimension, arguments) for dimension in (_COUNT, _BYTES))
        overflow = _overflow(arguments)
        if not (count.given or octets.given):
            count = count.with_default(defaults.max_count, "max_count")
            octets = octets.with_default(defaults.max_bytes, "max_bytes")
        if overflow == "flow":
            if adapt:
                count, octets = count.adapted(defaults), octets.adapted(defaults)
            marks = Marks(*count.marks(defaults), *octets.marks(defaults))
        else:
            for asked in () if adapt else (count, octets):
                asked.refuse_marks(overflow)
            marks = Marks.NONE
        return cls(_value(count.limit), _value(octets.limit), overflow, marks)

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


class _Dimension(NamedTuple):
    """The arguments that speak of one dimension."""

    limits: tuple[str, ...]
    stops: tuple[str, ...]
    resumes: tuple[str, ...]


_COUNT = _Dimension(("x-max-length", "qpid.max_count"), ("qpid.flow_stop_count",), ("qpid.flow_resume_count",))
_BYTES = _Dimension(
    ("x-max-length-bytes", "qpid.max_size"),
    ("qpid.flow_stop_size", "x-qpid-capacity"),
    ("qpid.flow_resume_size", "x-qpid-flow-resume-capacity"),
)
_RABBITMQ_LIMITS = (_COUNT.limits[0], _BYTES.limits[0])
_QPID = {name for dimension in (_COUNT, _BYTES) for names in dimension for name in names} - {*_RABBITMQ_LIMITS}


class _Given(NamedTuple):
    """A number, and the argument or setting it came from."""

    value: int
    name: str

    def at_most(self, value: int) -> Self:
        return self._replace(value=min(value, self.value))


def _value(given: _Given | None) -> int | None:
    return given.value if given else None


class _Asked(NamedTuple):
    """What was asked for in one dimension. `given`: whether there was a limit or a stop mark, be it 0."""

    limit: _Given | None
    stop: _Given | None
    resume: _Given | None
    given: bool

    @classmethod
    def read(cls, dimension: _Dimension, arguments: Mapping[str, object]) -> Self:
        limits, stops, resumes = (_numbers(names, arguments) for names in dimension)
        effective = [limit for limit in limits if limit.value or limit.name in _RABBITMQ_LIMITS]
        return cls(
            min(effective, default=None),
            min(stops, default=None),
            min(resumes, default=None),
            bool(limits or stops),
        )

    def with_default(self, limit: int, name: str) -> Self:
        return self._replace(limit=_Given(limit, f"the node's {name}")) if limit else self

    def adapted(self, defaults: FlowDefaults) -> Self:
        """The same with no mark above what it may be."""
        asked = self
        if self.stop and self.limit:
            asked = asked._replace(stop=self.stop.at_most(max(1, self.limit.value)))
        stop, _ = asked._stop(defaults)
        return asked._replace(resume=self.resume and self.resume.at_most(stop))

    def marks(self, defaults: FlowDefaults) -> tuple[int, int]:
        """Stop and resume mark under flow."""
        stop, source = self._stop(defaults)
        if self.stop and self.limit and stop > max(1, self.limit.value):
            limit = f"the limit {self.limit.value} ({self.limit.name})"
            raise ArgumentError(self.stop.name, f'"stop mark {stop} is above {limit}"')
        if self.resume:
            if self.resume.value > stop:
                reason = f"is above {source}" if stop else "has no stop mark"
                raise ArgumentError(self.resume.name, f'"resume mark {self.resume.value} {reason}"')
            return stop, self.resume.value
        if self.limit and not self.stop:
            return stop, self.limit.value * defaults.resume_percent // 100
        return stop, stop * defaults.resume_percent // defaults.stop_percent

    def _stop(self, defaults: FlowDefaults) -> tuple[int, str]:
        """The stop mark, 0 for none, and words for where it comes from."""
        if self.stop and self.stop.value:
            return self.stop.value, f"the stop mark {self.stop.value} ({self.stop.name})"
        if not self.limit:
            return 0, ""
        percent = 100 if self.stop else defaults.stop_percent
        stop = max(1, self.limit.value * percent // 100)
        return stop, f"the stop mark {stop} ({percent} % of {self.limit.name} {self.limit.value})"

    def refuse_marks(self, overflow: Overflow) -> None:
        mark = self.stop or self.resume
        if mark:
            raise ArgumentError(mark.name, f"\"a mark needs x-overflow 'flow', not '{overflow}'\"")


def _numbers(names: tuple[str, ...], arguments: Mapping[str, object]) -> list[_Given]:
    return [_number(name, arguments[name]) for name in names if name in arguments]


def _number(name: str, value: object) -> _Given:
    """A number >= 0 of 63 bits. Qpid's brokers take strings of digits too, and its clients send them."""
    digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= DIGITS_MAX
    if digits and name in _QPID:
        value = int(cast(str, value))
    kind = type_name(value)
    if kind not in ("signedint", "long"):
        raise ArgumentError(name, f'"expected integer, got {kind}"')
    number = cast(int, value)
    if number < 0:
        raise ArgumentError(name, f"{{value_negative,{number}}}")
    if number > NUMBER_MAX:
        raise ArgumentError(name, f"{{value_too_large,{number}}}")
    return _Given(number, name)


def _overflow(arguments: Mapping[str, object]) -> Overflow:
    if "x-overflow" in arguments:
        value = arguments["x-overflow"]
        kind = type_name(value)
        if kind != "longstr":
            raise ArgumentError("x-overflow", f"{{unacceptable_type,{kind}}}")
        if value not in OVERFLOWS:
            raise ArgumentError("x-overflow", "invalid_overflow")
        return value
    if LAST_VALUE_KEYS[1] in arguments:
        return "last-value"
    rabbitmq = any(name in arguments for name in _RABBITMQ_LIMITS)
    return "drop-head" if rabbitmq and _QPID.isdisjoint(arguments) else "flow"
