"""Structured logs on standard error: readable lines on a terminal, one JSON object a line otherwise.

Every line carries the `role` and `index` of its process; lines of the standard library's loggers (above all asyncio's)
take the same form. A peer's mistake is one line without a traceback; a bug of ours brings its whole traceback. The
number of lines of a kind per second is limited (`penstock.node.log_limit`).
"""

from __future__ import annotations

import atexit
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, cast

import orjson

from penstock.node.hidden import hidden
from penstock.node.log_limit import OTHERS, SECOND, LeftOut, LogLimit
from penstock.node.node import Node, Role
from penstock.settings import Settings
from penstock.settings.values import LogLevel
from penstock.text.utf8 import readable

with hidden("rich"):  # structlog would use it for tracebacks that are not written here: 4 MiB in memory
    import structlog
    from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

_limiter: Limiter | None = None


def configure(settings: Settings, role: Role, index: int) -> None:
    """Set up logging of this process; call once, before its first line."""
    global _limiter
    terminal = sys.stderr.isatty()
    lines = cast(TextIO, Lines(sys.stderr))
    chain, renderer = _chain(role, index, terminal), _renderer(terminal)
    _limiter = Limiter(lambda method, event: lines.write(_rendered(method, event, [*chain, renderer]) + "\n"))
    structlog.configure(
        processors=[_limiter.process, *chain, renderer],
        logger_factory=structlog.WriteLoggerFactory(lines),
        cache_logger_on_first_use=False,  # a cached logger would keep its level
    )
    _adopt_standard_library(chain, renderer, _limiter)
    set_level(settings.log_level)
    atexit.register(report_suppressed)


def set_level(name: LogLevel) -> None:
    """Write lines of this level and above only."""
    level = logging.getLevelNamesMapping()[name.upper()]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(level))
    logging.getLogger().setLevel(level)


def read_level(runtime: Path) -> None:
    """Set the level that the node file has."""
    set_level(Node.load(runtime).settings.log_level)


def report_suppressed() -> None:
    """Report the suppressed lines of the current second; for a process that is about to end."""
    if _limiter is not None:
        _limiter.report_rest()


class Limiter:
    """Keeps log lines of a process within their limit. `write` takes a method's name and an event."""

    def __init__(
        self, write: Callable[[str, dict[str, Any]], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._clock = clock
        self._limit = LogLimit()
        self._lock = threading.RLock()  # a finalizer may log while it is locked
        self._timer: threading.Timer | None = None

    def process(self, _logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Drop a line beyond the limit; a processor of structlog."""
        if not self._is_written(str(event.get("event")), _peer(event), method):
            raise structlog.DropEvent
        return event

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop a record beyond the limit; a filter of the standard library. The kind is the logger's name, as its texts
        differ each time.
        """
        return self._is_written(record.name, OTHERS, record.levelname.lower())

    def report_over(self) -> None:
        """Report the suppressed lines if their second is over."""
        with self._lock:
            self._timer = None
            self._report(self._limit.over(self._clock()))
            if self._limit.has_left_out:  # of a second that has begun since
                self._report_later()

    def report_rest(self) -> None:
        """Report the lines suppressed so far."""
        with self._lock:
            self._report(self._limit.rest(self._clock()))

    def _is_written(self, kind: str, peer: str, level: str) -> bool:
        with self._lock:
            self._report(self._limit.over(self._clock()))
            written = self._limit.is_written(kind, peer, level)
            if not written and self._timer is None:
                self._report_later()
        return written

    def _report_later(self) -> None:
        self._timer = threading.Timer(SECOND, self.report_over)
        self._timer.daemon = True
        self._timer.start()

    def _report(self, left_out: Iterable[LeftOut]) -> None:
        for each in left_out:
            of: dict[str, Any] = {"of": each.kind} | ({"peer": each.peer} if each.peer else {})
            self._write(each.level, {"event": f"and {each.lines} more", **of, "lines": each.lines})


class Lines:
    """A stream for log lines. Lines that cannot be written are lost: a full disk must not stop a process."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def get_logger(**context: object) -> FilteringBoundLogger:
    """Return a logger whose lines all carry `context`; it may be made before `configure`, but used only after it."""
    return cast(FilteringBoundLogger, structlog.get_logger(**context))


def _chain(role: Role, index: int, terminal: bool) -> list[Processor]:
    def name_process(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {"role": role, "index": index, **event}

    stamp = structlog.processors.TimeStamper(fmt="%H:%M:%S.%f" if terminal else "iso", utc=not terminal)
    chain: list[Processor] = [structlog.processors.add_log_level, stamp, name_process]
    if not terminal:  # the console's renderer writes tracebacks itself
        chain.append(structlog.processors.format_exc_info)
    return chain


def _renderer(terminal: bool) -> Processor:
    if terminal:
        return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    return structlog.processors.JSONRenderer(serializer=_json)


def _json(event: EventDict, **_ignored: object) -> str:
    """Render a line as JSON. A line is never refused: values that JSON cannot represent, such as bytes that are not
    UTF-8, are written as text.
    """
    try:
        return _dumped(event)
    except TypeError:
        return _dumped({readable(name): _representable(value) for name, value in event.items()})


def _representable(value: object) -> object:
    try:
        _dumped(value)
    except TypeError:
        return readable(value) if isinstance(value, str) else repr(value)
    return value


def _dumped(value: object) -> str:
    """Dump as JSON. TypeError for a value that JSON cannot represent."""
    return orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()


def _peer(event: Mapping[str, Any]) -> str:
    """The peer of a line: a host and the user logged in from there, or else the vhost or user it is about.

    Ports, and users who have not logged in, are left out, as they differ each time.
    """
    peer = event.get("peer")
    if isinstance(peer, str):
        host = peer.rpartition(":")[0] or peer
        return f"{host} {event['user']}" if "user" in event and "connection" in event else host
    return str(event.get("vhost", event.get("user", OTHERS)))


def _rendered(method: str, event: EventDict, processors: Iterable[Processor]) -> str:
    line: Any = event
    for process in processors:
        line = process(None, method, line)
    return str(line)


def _adopt_standard_library(chain: list[Processor], renderer: Processor, limiter: Limiter) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(limiter.filter)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=chain,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.getLogger().handlers[:] = [handler]
