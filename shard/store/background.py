"""A thread that writes, reads or flushes a store while the loop goes on.

Every commit goes through it, so it is a plain queue and a thread: with `concurrent.futures` the handover took 7 % of
the time that a shard spent in Python.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue

Done = Callable[["Job"], None]


class Job:
    """One piece of work; `error` is the exception it raised."""

    __slots__ = ("do", "done", "error")

    def __init__(self, do: Callable[[], object], done: Done) -> None:
        self.do = do
        self.done = done
        self.error: BaseException | None = None


class Background:
    """One thread, and the queue of its jobs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def begin(self, do: Callable[[], object], done: Done) -> Job:
        """Queue a job; `done` is called in the loop once it has run."""
        job = Job(do, done)
        self._jobs.put(job)
        return job

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job.do()
            except BaseException as error:
                job.error = error
            self._loop.call_soon_threadsafe(job.done, job)

    def end(self) -> None:
        """Wait for the queued jobs, and end the thread."""
        self._jobs.put(None)
        self._thread.join()
