"""What becomes of an exception that nobody expected: a bug of ours, or something that the machine has run out of.

It must not end anything but what it is about. So work that belongs to somebody is begun where an exception ends only
that (`acceptor.contained`); work that comes again is done again whatever became of it the last time (`Chores`); and a
process whose state is shared by all its users ends, if that may have been changed by half (`end_on_failure`): its next
life begins with what is safe.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

from penstock.node.logs import get_logger, tell_left_out

log = get_logger()

FAILURE_STATUS = 70
"""Exit status of a process that may have changed something by half (EX_SOFTWARE of sysexits.h)."""


class Chores:
    """Things to be done every so many seconds of the loop's clock, in this order, each whatever becomes of the others.

    The first failure of a row is in the log with its traceback; when the chore is done again, so is their number.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, *chores: Callable[[], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._chores = chores
        self.failures = [0] * len(chores)
        """In a row, by chore."""
        self._timer = loop.call_later(seconds, self._do)

    def _do(self) -> None:
        self._timer = self._loop.call_later(self._seconds, self._do)
        for index, chore in enumerate(self._chores):
            try:
                chore()
            except Exception:
                self.failures[index] += 1
                if self.failures[index] == 1:
                    log.exception("chore failed", chore=chore.__qualname__)
            else:
                if self.failures[index]:
                    log.info("chore done again", chore=chore.__qualname__, failures=self.failures[index])
                    self.failures[index] = 0

    def stop(self) -> None:
        self._timer.cancel()


def report(loop: asyncio.AbstractEventLoop, what: str, error: Exception) -> None:
    """Tell the loop's handler of an exception, instead of raising it through those who wait for the rest."""
    loop.call_exception_handler({"message": what, "exception": error, "handle": None})


def end_on_failure(loop: asyncio.AbstractEventLoop) -> None:
    """End the process at an exception in a callback of its loop. Those of tasks, which change nothing, are logged."""

    def failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if "handle" not in context or error is None:
            loop.default_exception_handler(context)
            return
        log.critical("process ends in the middle of a change", what=context["message"], exc_info=error)
        tell_left_out()
        sys.stderr.flush()
        os._exit(FAILURE_STATUS)

    loop.set_exception_handler(failed)
