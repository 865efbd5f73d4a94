"""Jobs of Spark side by side, each within a time limit.

A job that exceeds it is cancelled. If that does not end it (Java itself is stuck, perhaps on a file system that does
not answer), Java is ended: no command waits for ever.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from penstock.text.durations import shown
from pipeline.errors import PipelineError

LIMIT_S = 3600.0
GRACE_S = 30.0
"""How long a cancelled job may take to end."""

Result = TypeVar("Result")


class Runner:
    """Runs jobs, `at_once` of them side by side: while one is planned, or waits for its last task, another has tasks
    for all cores. A context: at its end running jobs are cancelled.
    """

    def __init__(
        self, spark: SparkSession, limit_s: float = LIMIT_S, at_once: int = 2, grace_s: float = GRACE_S
    ) -> None:
        self.spark, self.limit_s, self.grace_s = spark, limit_s, grace_s
        self.pool = ThreadPoolExecutor(at_once, "job")
        self.begun: set[Future[Any]] = set()
        self.groups: set[str] = set()
        self.stuck: str | None = None  # the job for which Java was ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
        self.pool.shutdown()

    def submit(self, name: str, job: Callable[[], Result]) -> Future[Result]:
        """Begin a job when there is room. Its result raises PipelineError if it takes longer than the limit."""
        future = self.pool.submit(self._run, name, job)
        self.begun.add(future)
        future.add_done_callback(self.begun.discard)
        return future

    def run(self, name: str, job: Callable[[], Result]) -> Result:
        """Run a job to its end. PipelineError if it takes longer than the limit."""
        return self.submit(name, job).result()

    def cancel(self) -> None:
        """Cancel all jobs that are not done, and wait until they have ended."""
        begun = list(self.begun)
        for future in begun:
            future.cancel()
        for group in list(self.groups):
            self._cancel(group)
        wait(begun)

    def _run(self, name: str, job: Callable[[], Result]) -> Result:
        group, expired = uuid.uuid4().hex, threading.Event()

        def expire() -> None:
            expired.set()
            self._cancel(group)

        timers = [
            threading.Timer(self.limit_s, expire),
            threading.Timer(self.limit_s + self.grace_s, self._end_java, [name]),
        ]
        for timer in timers:
            timer.daemon = True
            timer.start()
        self.groups.add(group)
        try:
            self.spark.sparkContext.setJobGroup(group, name, interruptOnCancel=True)
            return job()
        except Exception as error:
            late = name if expired.is_set() else self.stuck
            if late is not None:
                raise PipelineError(f"{late}: not done within {shown(self.limit_s)}, see --job-limit") from error
            raise
        finally:
            self.groups.discard(group)
            for timer in timers:
                timer.cancel()

    def _cancel(self, group: str) -> None:
        """Cancel the jobs of a group, and those that it would still begin; nothing to do once Java is ended."""
        context: Any = self.spark.sparkContext._jsc
        try:
            if self.stuck is None:
                context.sc().cancelJobGroupAndFutureJobs(group)
        except (Py4JError, OSError):
            if self.stuck is None:
                raise

    def _end_java(self, name: str) -> None:
        """End Java at once, for a job that is stuck, so that calls which wait for it fail."""
        self.stuck = name
        silence_py4j()
        java: Any = self.spark._jvm
        with suppress(Py4JError, OSError):  # the call has no answer
            java.java.lang.Runtime.getRuntime().halt(1)


def silence_py4j() -> None:
    """Have py4j log no calls that fail from now on, neither with its own loggers nor with the root one."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: "py4j" not in Path(record.pathname).parts)
