"""Work on files that may be damaged, in a process apart: a map of a damaged file ends who reads it by a signal."""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ops.errors import CommandError
from shard.environment import StoreError

T = TypeVar("T")

INTERRUPTED = 130


def apart(what: str, work: Callable[[], T]) -> T:
    """The result of `work`, done in a child. CommandError for its errors (of the store, of the system) and its death.

    `what` is what it works on, as the error names it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work(writing, what, work)
    os.close(writing)
    try:
        with open(reading, "rb") as pipe:
            answer = pipe.read()
    except KeyboardInterrupt:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        _show_cursor()
        name = signal.Signals(os.WTERMSIG(status)).name
        raise CommandError(f"{what} is damaged: reading it ended in {name}")
    if os.WEXITSTATUS(status) == INTERRUPTED:
        raise KeyboardInterrupt
    if not answer:
        raise CommandError(f"{what}: the work on it failed, as said above")
    refusal: str | None
    result: T
    refusal, result = pickle.loads(answer)  # of our own child
    if refusal is not None:
        raise CommandError(refusal)
    return result


def _work(writing: int, what: str, work: Callable[[], T]) -> None:
    """In the child; does not return."""
    status = 1
    try:
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            answer: tuple[str | None, T | None] = (None, work())
        except (StoreError, CommandError) as error:
            answer = (str(error), None)
        except OSError as error:
            answer = (f"{what}: {error.strerror}", None)
        with open(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
        status = 0
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _show_cursor() -> None:
    """A progress bar that was cut off has hidden it."""
    if sys.stderr.isatty():
        print("\x1b[?25h", end="", file=sys.stderr)
