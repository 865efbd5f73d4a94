"""Structured logs on standard error: readable lines on a terminal, one JSON object a line otherwise.

Every line carries `role` and `index` of its process; what the standard library's loggers say (asyncio's above all)
takes the same form. A peer's mistake is one line without a traceback; a bug of ours brings its whole traceback.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from penstock.node import Role
from penstock.settings import Settings
from penstock.texts import readable

LINES_A_SECOND = 20


def configure(settings: Settings, role: Role, index: int) -> None:
    """Set up logging of this process; once, before its first line."""
    terminal = sys.stderr.isatty()
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    chain = _chain(role, index, terminal)
    structlog.configure(
        processors=[*chain, _renderer(terminal)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, Lines(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    _adopt_standard_library(level, chain, _renderer(terminal))


class Lines:
    """A stream for log lines. What it does not take is lost: a full disk below the log must not stop a process."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


class FewLines:
    """Lines of which there may be very many: at most `LINES_A_SECOND`; the next one says how many were left out.

    Times are seconds of the caller's clock.
    """

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._since = 0.0
        self._written = 0
        self._left_out = 0

    def info(self, now: float, event: str, **fields: object) -> None:
        if self._has_room(now):
            self._log.info(event, **fields)

    def warning(self, now: float, event: str, **fields: object) -> None:
        if self._has_room(now):
            self._log.warning(event, **fields)

    def _has_room(self, now: float) -> bool:
        self.tell_more(now)
        if self._written >= LINES_A_SECOND:
            self._left_out += 1
            return False
        self._written += 1
        return True

    def tell_more(self, now: float) -> None:
        """Say what was left out, once the second is over."""
        if now < self._since + 1.0:
            return
        if self._left_out:
            self._log.info("more lines of this kind", count=self._left_out)
        self._since, self._written, self._left_out = now, 0, 0


def get_logger(**context: object) -> FilteringBoundLogger:
    """A logger whose lines all carry `context`; may be made before `configure`, used only after it."""
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
    """A line is never refused: values that JSON cannot say, as octets that are not UTF-8, are said as they can be."""
    try:
        return _dumped(event)
    except TypeError:
        return _dumped({readable(name): _sayable(value) for name, value in event.items()})


def _sayable(value: object) -> object:
    try:
        _dumped(value)
    except TypeError:
        return readable(value) if isinstance(value, str) else repr(value)
    return value


def _dumped(value: object) -> str:
    """As JSON. TypeError for what it cannot say."""
    return orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()


def _adopt_standard_library(level: int, chain: list[Processor], renderer: Processor) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=chain,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
