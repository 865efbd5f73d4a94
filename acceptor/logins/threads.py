"""The threads of an acceptor for passwords and for calls of services: neither needs the interpreter lock for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from acceptor.logins.background import Background, T

CALLERS = 8
"""Calls of services that are made at once."""


class Threads:
    """One thread for passwords, some for calls. `begins` is called in the loop before a result is passed on, `ends`
    afterwards.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, begins: Callable[[], None], ends: Callable[[], None]
    ) -> None:  # fmt: skip
        self._loop = loop
        self._begins = begins
        self._ends = ends
        self._verifier = ThreadPoolExecutor(1, "verifier")
        self._callers = ThreadPoolExecutor(CALLERS, "caller")

    @property
    def verifying(self) -> Background:
        """The background for passwords."""
        return partial(self._run, self._verifier)

    @property
    def calling(self) -> Background:
        """The background for calls."""
        return partial(self._run, self._callers)

    def close(self) -> None:
        """Drop what has not begun; wait for a password, but for no service."""
        self._verifier.shutdown(wait=True, cancel_futures=True)
        self._callers.shutdown(wait=False, cancel_futures=True)

    def _run(self, executor: ThreadPoolExecutor, work: Callable[[], T], done: Callable[[T], None]) -> None:
        def finish(future: Future[T]) -> None:
            self._begins()
            done(future.result())
            self._ends()

        def hand_over(future: Future[T]) -> None:
            if not future.cancelled():
                self._loop.call_soon_threadsafe(finish, future)

        executor.submit(work).add_done_callback(hand_over)
