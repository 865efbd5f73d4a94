"""Containment of unexpected exceptions: a bug of ours, or an exhausted resource of the machine.

An exception must end no more than the work that raised it. So work for one connection or client runs where an exception
ends only that (`acceptor.links.contained`); periodic work is repeated whatever happened last time (`Chores`); and a
process whose state is shared by all its users ends if a change may be half done (`end_on_failure`): its next
incarnation starts from safe state.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

from penstock.node.logs import get_logger, report_suppressed

log = get_logger()

FAILURE_STATUS = 70
"""Exit status of a process that may have left a change half done (EX_SOFTWARE of sysexits.h)."""


class Chores:
    """Periodic work, every `seconds` of the loop's clock, in the order given; a failing chore does not keep the others
    from running.

    The first of several failures in a row is logged with its traceback; the next success logs their number.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, *chores: Callable[[], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._chores = chores
        self.failures = [0] * len(chores)
        """Failures in a row, by chore."""
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
                    log.info("chore recovered", chore=chore.__qualname__, failures=self.failures[index])
                    self.failures[index] = 0

    def stop(self) -> None:
        """Cancel the timer."""
        self._timer.cancel()


def report(loop: asyncio.AbstractEventLoop, what: str, error: Exception) -> None:
    """Pass an exception to the loop's handler, instead of raising it through the callers of unrelated work."""
    loop.call_exception_handler({"message": what, "exception": error, "handle": None})


def end_on_failure(loop: asyncio.AbstractEventLoop) -> None:
    """End the process at an exception in a callback of its loop. Exceptions of tasks, which change nothing, are only
    logged.
    """

    def failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if "handle" not in context or error is None:
            loop.default_exception_handler(context)
            return
        log.critical("process ends in the middle of a change", what=context["message"], exc_info=error)
        report_suppressed()
        sys.stderr.flush()
        os._exit(FAILURE_STATUS)

    loop.set_exception_handler(failed)
