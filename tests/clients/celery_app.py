"""The tasks that `test_celery.py` runs in worker processes of their own."""

# Celery has no types; its decorators leave none either.
# mypy: disable-error-code="import-untyped, misc, untyped-decorator, no-any-return"

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

from celery import Celery
from kombu import Queue

PRIORITIES = 10
PREFIX = os.environ.get("CELERY_TESTS_PREFIX", "tests")
"""The prefix of all queue names: several tests may share a broker."""
TASKS = f"{PREFIX}-tasks"
QUEUES: dict[str, dict[str, Any]] = {
    "classic": {
        "task_queues": [
            Queue(TASKS, routing_key=TASKS),
            Queue(f"{PREFIX}-urgent", routing_key=f"{PREFIX}-urgent", queue_arguments={"x-max-priority": PRIORITIES}),
        ]
    },
    "quorum": {"task_default_queue_type": "quorum"},
    # With such an exchange delayed tasks go by way of queues with TTLs, one for each bit of the delay.
    "quorum, topic exchange": {
        "task_default_queue_type": "quorum",
        "task_default_exchange": f"{PREFIX}-exchange",
        "task_default_exchange_type": "topic",
    },
}
"""Settings for kinds of queues."""

# The results of rpc:// are for one client only, so there are no chords with it.
app = Celery(
    "celery_app",
    broker=os.environ.get("CELERY_TESTS_BROKER"),
    backend=os.environ.get("CELERY_TESTS_RESULTS", "rpc://"),
)
app.conf.update(
    task_default_queue=TASKS,
    event_exchange=f"{PREFIX}-events",
    event_queue_prefix=f"{PREFIX}-events",
    control_exchange=f"{PREFIX}-control",
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    **QUEUES[os.environ.get("CELERY_TESTS_QUEUES", "classic")],
)

task = partial(app.task, shared=False)
"""Not for other applications: a test process has one for each worker."""


@task
def add(left: int, right: int) -> int:
    """Return the sum of two numbers."""
    return left + right


@task
def total(numbers: list[int]) -> int:
    """Return the sum of numbers."""
    return sum(numbers)


@task(bind=True, max_retries=3)
def third_time(self: Any) -> int:
    """Fail twice, then return how many retries it took."""
    if self.request.retries < 2:
        raise self.retry(countdown=1)
    return int(self.request.retries)


@task
def when() -> float:
    """Return the time at which it is run."""
    return time.time()


@task
def note(path: str, word: str) -> None:
    """Append a word to a file."""
    with Path(path).open("a") as file:
        file.write(f"{word}\n")


@task
def process() -> int:
    """Return the pid of its process."""
    return os.getpid()


@task
def sleep(seconds: float) -> None:
    """Take so many seconds."""
    time.sleep(seconds)
