"""A Celery worker for tests: a process of its own that runs the tasks of `celery_app.py`."""

# Celery has no types.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

from kombu import pools

from tests.broker.process import ROOT
from tests.waiting import PATIENCE, wait_for

STOP_SECONDS = 60


class Worker:
    """A Celery worker with two processes, and the application that its clients use."""

    def __init__(
        self,
        url: str,
        directory: Path,
        queues: str = "classic",
        results: str = "file",
        authority: str = "",
        own: Path | None = None,
    ) -> None:
        """`queues` is one of `celery_app.QUEUES`. `results`: kept in files (`file`) or sent to the client (`rpc`).

        With the file of an `authority` it uses TLS, and logs in with its `own` certificate if it has one.
        """
        self.prefix = f"celery-{uuid4().hex[:8]}"
        self.name = f"worker@{self.prefix}"
        self.queue = f"{self.prefix}-tasks"
        kept = directory / "results"
        kept.mkdir()
        backend = f"file://{kept}" if results == "file" else "rpc://"
        settings = {"BROKER": url, "PREFIX": self.prefix, "RESULTS": backend, "QUEUES": queues}
        settings |= {"AUTHORITY": authority, "CERTIFICATE": str(own or "")}
        os.environ.update({f"CELERY_TESTS_{key}": value for key, value in settings.items()})
        self.module = load()
        self.app = self.module.app
        command = [sys.executable, "-m", "celery", "--app", "tests.clients.celery_app", "worker", "--pool", "prefork"]
        options = ["--concurrency", "2", "--task-events", "--loglevel", "INFO", "--hostname", self.name]
        self.log_file = directory / "worker.log"
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *options, "--queues", self.queue], cwd=ROOT, stdout=log, stderr=log
            )

    @property
    def log(self) -> str:
        """The worker's log."""
        return self.log_file.read_text()

    def inspect(self) -> Any:
        """Return Celery's inspection of the worker."""
        return self.app.control.inspect([self.name], timeout=PATIENCE, limit=1)

    def scheduled(self) -> int:
        """Return the number of tasks that the worker keeps until their time."""
        return len(self.inspect().scheduled()[self.name])

    def stop(self) -> None:
        """Stop the worker. AssertionError with its log if it does not end in time."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(self.log) from None


def load() -> ModuleType:
    """Return the application, with the settings of this test."""
    sys.modules.pop("tests.clients.celery_app", None)
    return importlib.import_module("tests.clients.celery_app")


@contextmanager
def running(worker: Worker) -> Iterator[Worker]:
    """Wait until the worker answers; stop it at the end."""
    try:
        wait_for(lambda: worker.app.control.inspect(timeout=1).ping(), 2 * PATIENCE, "the worker to answer")
        yield worker
    finally:
        pools.reset()  # pools are global to the process, and the next worker may have another broker
        worker.app.close()
        worker.stop()
