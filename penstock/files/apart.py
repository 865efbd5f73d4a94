"""Runs work on possibly damaged files in a separate process: reading a map of a damaged file may end the reader by a
signal.

A C library that ends its process prints the reason to descriptor 2. In the child that is a file of its own, and the
reason becomes a part of the error; what Python prints goes to stderr as ever.
"""

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

T = TypeVar("T")

INTERRUPTED = 130
# Characters of a C library's reason that an error repeats.
REASON_MAX = 300


class EndedError(Exception):
    """The work did not finish; the text says how it ended."""


def apart(work: Callable[[], T], errors: tuple[type[Exception], ...] = ()) -> T:
    """Run `work` in a child and return its result. EndedError if the child died; `errors` and OSError as they were
    raised.
    """
    reading, writing = os.pipe()
    with open(os.memfd_create("reason"), "w+b") as reason:
        child = os.fork()
        if child == 0:
            os.close(reading)
            _work(writing, reason.fileno(), work, errors)
        os.close(writing)
        try:
            with open(reading, "rb") as pipe:
                answer = pipe.read()
        except KeyboardInterrupt:
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            _, status = os.waitpid(child, 0)
        reason.seek(0)
        printed = reason.read().decode(errors="replace").splitlines()
    if os.WIFSIGNALED(status):
        ended = f"it is damaged: reading it ended in {signal.Signals(os.WTERMSIG(status)).name}"
        raise EndedError(f"{ended} ({printed[-1][:REASON_MAX]})" if printed else ended)
    for line in printed:
        print(line, file=sys.stderr)
    if os.WEXITSTATUS(status) == INTERRUPTED:
        raise KeyboardInterrupt
    if not answer:
        raise EndedError("the work on it failed, as said above")
    refusal: Exception | None
    result: T
    refusal, result = pickle.loads(answer)  # noqa: S301  of our own child
    if refusal is not None:
        raise refusal
    return result


def _work(writing: int, reason: int, work: Callable[[], T], errors: tuple[type[Exception], ...]) -> None:
    """Run the work in the child and send its result; does not return."""
    status = 1
    try:
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
        os.dup2(reason, 2)
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        carried: tuple[type[Exception], ...] = (OSError, *errors)
        try:
            answer: tuple[Exception | None, T | None] = (None, work())
        except carried as error:
            answer = (error, None)
        with suppress(BrokenPipeError), open(writing, "wb") as pipe:  # the parent has been killed
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
