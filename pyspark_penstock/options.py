"""The options of `format("penstock")`: texts from Spark, parsed into consistent values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

from penstock.limits.means import nearest

DEFAULT_URL: Final = "amqp://guest:guest@127.0.0.1:5672/%2F"

MOST_UNACKED: Final = 65535
"""The limit of basic.qos: prefetch-count is a short (specification, section 1.8.3.3)."""

OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
"""Options of a query that Spark also passes to the sink."""

OptionsT = TypeVar("OptionsT", "ReadOptions", "StreamOptions", "WriteOptions")


class OptionError(ValueError):
    """An option is unknown, missing, or has an invalid value; the text names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """A bounded read: at most `maxrows` messages of `queue` a partition, each partition a consumer of its own. `ack`:
    `none` requeues all of them, `end` acks them once Spark has received the last.
    """

    queue: str
    url: str = DEFAULT_URL
    maxrows: int = 10_000
    partitions: int = 1
    ack: str = "none"

    def __post_init__(self) -> None:
        _within("maxRows", self.maxrows, 1, MOST_UNACKED)
        _within("partitions", self.partitions, 1, 1000)
        if self.ack not in ("none", "end"):
            raise OptionError(f"ack must be none or end, not {self.ack!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """A stream: at most `maxrows` messages of `queue` a micro-batch, at most `prefetch` unacked (0: twice `maxrows`).
    With `leases`, that many tasks read each micro-batch, by leases that outlive them for `leaseseconds`.
    """

    queue: str
    url: str = DEFAULT_URL
    maxrows: int = 10_000
    prefetch: int = 0
    leases: int = 0
    leaseseconds: int = 3600

    def __post_init__(self) -> None:
        _within("leases", self.leases, 0, 1000)
        _within("leaseSeconds", self.leaseseconds, 1, 7 * 24 * 3600)
        if self.leases:
            _within("maxRows", self.maxrows, 1, MOST_UNACKED * self.leases)
            if self.prefetch:
                raise OptionError("prefetch is for streams without leases")
            return
        _within("maxRows", self.maxrows, 1, MOST_UNACKED // 2)
        if self.prefetch:
            _within("prefetch", self.prefetch, 2 * self.maxrows, MOST_UNACKED)

    @property
    def unacked(self) -> int:
        """The prefetch: one batch may be with Spark, unacked, while the next is gathered."""
        return self.prefetch or 2 * self.maxrows


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """A sink: exchange and routing key for rows without these columns; `window`, the most unconfirmed messages; whether
    an unroutable message fails the task (`mandatory`); and `timeout`, the seconds that a task may be held before it
    fails (0: no limit).
    """

    url: str = DEFAULT_URL
    exchange: str = ""
    routingkey: str = ""
    window: int = 1000
    mandatory: bool = True
    timeout: float = 0.0

    def __post_init__(self) -> None:
        _within("window", self.window, 1, 1_000_000)
        _within("timeout", self.timeout, 0, 1e9)


def parse(kind: type[OptionsT], given: Mapping[str, str]) -> OptionsT:
    """Parse options, whose names may be in any case. OptionError says what is wrong."""
    known = {field.name: field for field in fields(kind)}
    values: dict[str, Any] = {}
    for name, text in given.items():
        field = known.get(name.lower())
        if field is None and name.lower() in OF_SPARK:
            continue
        if field is None:
            raise OptionError(f"there is no option '{name}' here{nearest(name.lower(), tuple(known))}")
        try:
            values[field.name] = _PARSERS[str(field.type)](text)
        except ValueError:
            raise OptionError(f"option {name} must be a {_TYPE_NAMES[str(field.type)]}, not {text!r}") from None
    if "queue" in known and not values.get("queue"):
        raise OptionError("the option queue is missing: it names the queue to read")
    return kind(**values)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


_PARSERS: Final[dict[str, Callable[[str], Any]]] = {"str": str, "int": int, "float": float, "bool": _boolean}
_TYPE_NAMES: Final = {"str": "text", "int": "whole number", "float": "number", "bool": "boolean"}


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise OptionError(f"{name} must be from {least:g} to {most:g}, not {value:g}")
