"""Limits and marks of a queue, from its declaration or inherited from exchange, vhost and node.

Each of the two dimensions, messages and bytes, has a limit, a stop mark and a resume mark. An argument names one of the
six. Several arguments may name the same one, as they come from different brokers: then the smallest number counts. A
mark may be a percentage of the limit. The result records the source of every limit and mark.

Settings that a declaration (with the queue's policy merged in) leaves open are inherited, level by level: limits and
marks in numbers from the first level that names any of them, and only if the declaration names neither limit nor stop
mark; marks in percent, overflow and flow each from the first level that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self, cast

from penstock.amqp.values import type_name
from penstock.limits.features import LAST_VALUE_KEYS
from penstock.limits.ladder import FOREVER, ladder_of
from penstock.limits.means import AUTO, means_of
from penstock.limits.watermarks import NUMBER_MAX, OVERFLOWS, ArgumentError, FlowDefaults, Marks, Overflow, QueueLimits
from penstock.text.amounts import Amount, AmountError, count, percentage, size


class Dimension(NamedTuple):
    """The arguments of one dimension, and how their texts are parsed."""

    limits: tuple[str, ...]
    stops: tuple[str, ...]
    resumes: tuple[str, ...]
    read: Callable[[str], int]


COUNT = Dimension(
    ("x-max-length", "qpid.max_count"),
    ("x-flow-stop-count", "qpid.flow_stop_count"),
    ("x-flow-resume-count", "qpid.flow_resume_count"),
    count,
)
BYTES = Dimension(
    ("x-max-length-bytes", "qpid.max_size"),
    ("x-flow-stop-size", "qpid.flow_stop_size", "x-qpid-capacity"),
    ("x-flow-resume-size", "qpid.flow_resume_size", "x-qpid-flow-resume-capacity"),
    size,
)
FLOW, OVERFLOW, POLICY_TYPE = "x-flow", "x-overflow", "qpid.policy_type"
THROTTLE, HOLD = "x-throttle", "x-hold"
RABBITMQ_LIMITS = (COUNT.limits[0], BYTES.limits[0])
MARKS = tuple(name for dimension in (COUNT, BYTES) for name in (*dimension.stops, *dimension.resumes))
NUMBERS = tuple(name for dimension in (COUNT, BYTES) for names in dimension[:3] for name in names)
"""The arguments whose values are numbers."""
ARGUMENTS = (*(name for name in NUMBERS if name not in RABBITMQ_LIMITS), FLOW, POLICY_TYPE, THROTTLE, HOLD)
"""The arguments that RabbitMQ does not know."""

POLICY_TYPES: dict[str, tuple[Overflow, bool]] = {
    "reject": ("reject-publish", True),
    "ring": ("ring", True),
    "ring_strict": ("ring-strict", True),
    "flow_to_disk": ("spill", True),
}
"""Qpid's policy types: the overflow that each stands for, and whether it has flow control."""


class Given(NamedTuple):
    """An amount, the argument or setting that gave it, and the owner of that argument or setting."""

    amount: Amount
    name: str
    source: str = ""

    @property
    def value(self) -> int:
        """The amount as a number: messages, bytes, or percent."""
        return self.amount.value

    def at_most(self, value: int) -> Self:
        """The same with its value capped."""
        return self._replace(amount=Amount(min(value, self.value)))

    def __str__(self) -> str:
        return f"{self.source}: {self.name}" if self.source else self.name


@dataclass(frozen=True, slots=True)
class Level:
    """The arguments that a policy of an exchange, a vhost or the node sets for its queues, and its name."""

    source: str
    arguments: Mapping[str, object]

    def name_source(self, _name: str) -> str:
        """The level's name, whichever the argument is; an `origin` for `decided`."""
        return self.source


@dataclass(frozen=True, slots=True)
class Decided:
    """The resulting limits, and the source of each setting of `SETTINGS` that has a value. `flow`: not turned off.

    `throttle` and `hold` are texts as `penstock.limits.means` and `penstock.limits.ladder` parse them.
    """

    limits: QueueLimits
    flow: bool
    throttle: str = AUTO
    hold: str = FOREVER
    sources: Mapping[str, str] = field(default_factory=dict)


SETTINGS = ("flow", "overflow", "max-length", "flow-stop-count", "flow-resume-count", "max-length-bytes",
            "flow-stop-size", "flow-resume-size", "throttle", "hold")  # fmt: skip
"""The settings of a queue, by their names in a policy."""


class _Asked(NamedTuple):
    """Limit and marks asked for in one dimension, and the inherited marks in percent."""

    limit: Given | None
    stop: Given | None
    resume: Given | None
    given: bool
    inherited_stop: Given
    inherited_resume: Given

    def resolved(self, adapt: bool) -> _Asked:
        """The same with percentages turned into numbers; a percentage needs a limit."""
        return self._replace(stop=self._number(self.stop, adapt), resume=self._number(self.resume, adapt))

    def _number(self, mark: Given | None, adapt: bool) -> Given | None:
        if mark is None or not mark.amount.percent:
            return mark
        if self.limit is not None:
            return mark._replace(amount=Amount(mark.amount.of(self.limit.value)))
        if adapt:
            return None
        raise ArgumentError(mark.name, f'"{mark.amount} of a limit that is not given"')

    def adapted(self) -> _Asked:
        """The same with each mark lowered to its maximum."""
        asked = self
        if self.stop and self.limit:
            asked = asked._replace(stop=self.stop.at_most(max(1, self.limit.value)))
        stop, _, _ = asked._stop()
        return asked._replace(resume=self.resume and self.resume.at_most(stop))

    def marks(self) -> tuple[int, str, int, str]:
        """Stop and resume mark under flow, each with its source."""
        stop, words, source = self._stop()
        if self.stop and self.limit and stop > max(1, self.limit.value):
            limit = f"the limit {self.limit.value} ({self.limit.name})"
            raise ArgumentError(self.stop.name, f'"stop mark {stop} is above {limit}"')
        if self.resume:
            if self.resume.value > stop:
                reason = f"is above {words}" if stop else "has no stop mark"
                raise ArgumentError(self.resume.name, f'"resume mark {self.resume.value} {reason}"')
            return stop, source, self.resume.value, str(self.resume)
        percent, resume_source = self.inherited_resume.amount, str(self.inherited_resume)
        if self.limit and not self.stop:
            return stop, source, min(percent.of(self.limit.value), stop), resume_source
        share = min(percent.value, self.inherited_stop.value)
        return stop, source, stop * share // max(self.inherited_stop.value, 1), resume_source

    def _stop(self) -> tuple[int, str, str]:
        """The stop mark (0: none), its description, and its source."""
        if self.stop and self.stop.value:
            return self.stop.value, f"the stop mark {self.stop.value} ({self.stop.name})", str(self.stop)
        if not self.limit:
            return 0, "", ""
        percent = Amount(100, percent=True) if self.stop else self.inherited_stop.amount
        stop = max(1, percent.of(self.limit.value))
        words = f"the stop mark {stop} ({percent} of {self.limit.name} {self.limit.value})"
        return stop, words, str(self.stop or self.inherited_stop)

    def refuse_marks(self, why: str) -> None:
        """Raise ArgumentError if a mark was asked for; `why` names what marks need."""
        mark = self.stop or self.resume
        if mark:
            raise ArgumentError(mark.name, f'"a mark needs {why}"')


def decided(
    arguments: Mapping[str, object],
    defaults: FlowDefaults,
    *,
    adapt: bool = False,
    levels: Sequence[Level] = (),
    origin: Callable[[str], str] = lambda name: "",
) -> Decided:
    """Decide the limits, marks and means of a queue. ArgumentError names an argument that cannot be used.

    - `x-max-length`, `x-max-length-bytes` with `x-overflow` absent or "drop-head", "reject-publish",
      "reject-publish-dlx": RabbitMQ's meaning, no marks; with "flow": marks at percentages of the limit.
    - "reject" is "reject-publish" that returns mandatory messages.
    - "spill" stops no producer: messages beyond the limit go to disk.
    - "ring" drops the oldest ready messages; "ring-strict" does too, but counts unacked messages and refuses a publish
      while the oldest message is unacked; "last-value" (or `qpid.last_value_queue_key`) conflates by a key and drops
      the oldest messages beyond a limit.
    - `qpid.max_count`, `qpid.max_size` (0: none) and all marks imply flow where no overflow is named. A stop mark of 0
      stops at the limit itself, or not at all without a limit.
    - `x-flow: off`: there are no marks, and under overflow flow no limits.
    - `x-throttle`: by what means producers are held; `x-hold`: how long.
    - With neither limit nor stop mark, those of `levels` apply, then the node's `defaults`.

    With `adapt`, a mark that conflicts with a limit or overflow from a policy or a setting is lowered to the limit, or
    left out under another overflow than flow. `origin` names the owner of an argument.
    """
    count_asked, bytes_asked = _asked(arguments, defaults, levels, origin)
    overflow, overflow_source = _overflow(arguments, levels, origin)
    flow, flow_source = _flow(arguments, levels, origin)
    both = [count_asked.resolved(adapt), bytes_asked.resolved(adapt)]
    if overflow == "flow" and not flow:
        both = [asked._replace(limit=None) for asked in both]
    throttle, throttle_source = _text(THROTTLE, means_of, AUTO, arguments, levels, origin)
    hold, hold_source = _text(HOLD, ladder_of, FOREVER, arguments, levels, origin)
    sources = {"overflow": overflow_source, "flow": flow_source, "throttle": throttle_source, "hold": hold_source}
    marks: list[int] = []
    for asked, (limit, stop, resume) in zip(both, (SETTINGS[2:5], SETTINGS[5:8]), strict=True):
        if asked.limit:
            sources[limit] = str(asked.limit)
        if overflow == "flow" and flow:
            at_stop, stop_source, at_resume, resume_source = (asked.adapted() if adapt else asked).marks()
            marks += (at_stop, at_resume)
            if at_stop:
                sources |= {stop: stop_source, resume: resume_source}
        elif not adapt:
            asked.refuse_marks(f"{OVERFLOW} 'flow', not '{overflow}'" if overflow != "flow" else f"{FLOW} 'on'")
    limits = [asked.limit.value if asked.limit else None for asked in both]
    return Decided(QueueLimits(limits[0], limits[1], overflow, Marks(*marks)), flow, throttle, hold, sources)


def asked_limits(arguments: Mapping[str, object], defaults: FlowDefaults, *, adapt: bool = False) -> QueueLimits:
    """Only the limits of `decided`."""
    return decided(arguments, defaults, adapt=adapt).limits


def _asked(
    arguments: Mapping[str, object], defaults: FlowDefaults, levels: Sequence[Level], origin: Callable[[str], str]
) -> tuple[_Asked, _Asked]:
    """Both dimensions, with their inherited parts."""
    own = [_read(dimension, arguments, origin) for dimension in (COUNT, BYTES)]
    from_levels = [
        [_read(dimension, level.arguments, level.name_source) for dimension in (COUNT, BYTES)] for level in levels
    ]
    percents = [_percents(reads, defaults) for reads in zip(own, *from_levels, strict=True)]
    if not any(read.given for read in own):
        chosen = next((reads for reads in from_levels if any(read.given for read in reads)), None)
        if chosen is None:
            node = [(defaults.max_count, "max_count"), (defaults.max_bytes, "max_bytes")]
            own = [
                read._replace(limit=Given(Amount(limit), f"the node's {name}")) if limit else read
                for read, (limit, name) in zip(own, node, strict=True)
            ]
        else:
            own = [
                _Read(theirs.limit, theirs.stop, read.resume or theirs.resume, True)
                for read, theirs in zip(own, chosen, strict=True)
            ]
    count_asked, bytes_asked = (_Asked(*read, *percent) for read, percent in zip(own, percents, strict=True))
    return count_asked, bytes_asked


class _Read(NamedTuple):
    """One level's values in one dimension. `given`: whether there was a limit, or a stop mark in numbers, even 0."""

    limit: Given | None
    stop: Given | None
    resume: Given | None
    given: bool


def _read(dimension: Dimension, arguments: Mapping[str, object], origin: Callable[[str], str]) -> _Read:
    limits = [_limit(name, arguments, dimension, origin(name)) for name in dimension.limits if name in arguments]
    stops, resumes = (
        [_mark(name, arguments, dimension, origin(name)) for name in names if name in arguments]
        for names in (dimension.stops, dimension.resumes)
    )
    effective = [limit for limit in limits if limit.value or limit.name in RABBITMQ_LIMITS]
    return _Read(
        min(effective, default=None, key=_least),
        min(stops, default=None, key=_least),
        min(resumes, default=None, key=_least),
        bool(limits) or any(not stop.amount.percent for stop in stops),
    )


def _least(given: Given) -> tuple[bool, int]:
    """Sort key: numbers before percentages, as a percentage has no value before there is a limit."""
    return given.amount.percent, given.value


def _percents(reads: Sequence[_Read], defaults: FlowDefaults) -> tuple[Given, Given]:
    """The marks in percent of the nearest level that has any."""
    stop = Given(Amount(defaults.stop_percent, percent=True), "the node's stop_percent")
    resume = Given(Amount(defaults.resume_percent, percent=True), "the node's resume_percent")
    stop = next((read.stop for read in reads[1:] if read.stop and read.stop.amount.percent), stop)
    resume = next((read.resume for read in reads[1:] if read.resume and read.resume.amount.percent), resume)
    return stop, resume


def _limit(name: str, arguments: Mapping[str, object], dimension: Dimension, source: str) -> Given:
    value = arguments[name]
    if isinstance(value, str) and name not in RABBITMQ_LIMITS:
        value = _from_text(name, value, dimension.read)
    return Given(Amount(_number(name, value)), name, source)


def _mark(name: str, arguments: Mapping[str, object], dimension: Dimension, source: str) -> Given:
    value = arguments[name]
    if isinstance(value, str):
        percent = _from_text(name, value, percentage)
        if percent is not None:
            return Given(Amount(percent, percent=True), name, source)
        value = _from_text(name, value, dimension.read)
    return Given(Amount(_number(name, value)), name, source)


def _from_text(name: str, text: str, read: Callable[[str], int | None]) -> int | None:
    try:
        return read(text)
    except AmountError as problem:
        raise ArgumentError(name, f'"{problem}"') from None


def _number(name: str, value: object) -> int:
    """Check that a value is an integer >= 0 of 63 bits, and return it."""
    kind = type_name(value)
    if kind not in ("signedint", "long"):
        raise ArgumentError(name, f'"expected integer, got {kind}"')
    number = cast(int, value)
    if number < 0:
        raise ArgumentError(name, f"{{value_negative,{number}}}")
    if number > NUMBER_MAX:
        raise ArgumentError(name, f"{{value_too_large,{number}}}")
    return number


def _word(name: str, arguments: Mapping[str, object], words: Sequence[str], reason: str) -> str:
    value = arguments[name]
    kind = type_name(value)
    if kind != "longstr":
        raise ArgumentError(name, f"{{unacceptable_type,{kind}}}")
    if value not in words:
        raise ArgumentError(name, reason)
    return cast(str, value)


def _overflow(
    arguments: Mapping[str, object], levels: Sequence[Level], origin: Callable[[str], str]
) -> tuple[Overflow, str]:
    """The action at the limit, and the source of that decision."""
    if OVERFLOW in arguments:
        return cast(Overflow, _word(OVERFLOW, arguments, OVERFLOWS, "invalid_overflow")), _named(OVERFLOW, origin)
    if LAST_VALUE_KEYS[1] in arguments:
        return "last-value", _named(LAST_VALUE_KEYS[1], origin)
    if POLICY_TYPE in arguments:
        word = _word(POLICY_TYPE, arguments, tuple(POLICY_TYPES), "invalid_policy_type")
        return POLICY_TYPES[word][0], _named(POLICY_TYPE, origin)
    for level in levels:
        if OVERFLOW in level.arguments:
            word = _word(OVERFLOW, level.arguments, OVERFLOWS, "invalid_overflow")
            return cast(Overflow, word), f"{level.source}: {OVERFLOW}"
    limiting = next((name for name in RABBITMQ_LIMITS if name in arguments), None)
    if limiting and not any(name in arguments for name in NUMBERS if name not in RABBITMQ_LIMITS):
        return "drop-head", f"the default with {limiting}"
    return "flow", "the default"


def _flow(arguments: Mapping[str, object], levels: Sequence[Level], origin: Callable[[str], str]) -> tuple[bool, str]:
    """Whether there is flow control, and the source of that decision."""
    if FLOW in arguments:
        return _word(FLOW, arguments, ("on", "off"), "invalid_flow") == "on", _named(FLOW, origin)
    policy_type = arguments.get(POLICY_TYPE)
    if isinstance(policy_type, str) and not POLICY_TYPES.get(policy_type, ("", True))[1]:
        return False, _named(POLICY_TYPE, origin)
    for level in levels:
        if FLOW in level.arguments:
            return _word(FLOW, level.arguments, ("on", "off"), "invalid_flow") == "on", f"{level.source}: {FLOW}"
    return True, "the default"


def _text(
    name: str, read: Callable[[str], object], default: str, arguments: Mapping[str, object], levels: Sequence[Level],
    origin: Callable[[str], str],
) -> tuple[str, str]:  # fmt: skip
    """A setting that is a text, from the nearest level that has it, and its source."""
    for level_arguments, named in ((arguments, origin), *((level.arguments, level.name_source) for level in levels)):
        if name in level_arguments:
            value = level_arguments[name]
            kind = type_name(value)
            if kind != "longstr":
                raise ArgumentError(name, f"{{unacceptable_type,{kind}}}")
            try:
                read(cast(str, value))
            except ValueError as problem:
                raise ArgumentError(name, f'"{problem}"') from None
            return cast(str, value), _named(name, named)
    return default, "the default"


def _named(name: str, origin: Callable[[str], str]) -> str:
    source = origin(name)
    return f"{source}: {name}" if source else name
