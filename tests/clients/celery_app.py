"""The tasks that `test_celery.py` runs in worker processes of their own."""

# Celery has no types; its decorators leave none either.
# mypy: disable-error-code="import-untyped, misc, untyped-decorator, no-any-return"

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery
from kombu import Queue

PRIORITIES = 10
PREFIX = os.environ.get("CELERY_TESTS_PREFIX", "tests")
"""Begins the names of all queues: several tests may share a broker."""

app = Celery("celery_app", broker=os.environ.get("CELERY_TESTS_BROKER"), backend="rpc://")
app.conf.update(
    task_default_queue=f"{PREFIX}-tasks",
    task_queues=[
        Queue(f"{PREFIX}-tasks", routing_key=f"{PREFIX}-tasks"),
        Queue(
            f"{PREFIX}-urgent",
            routing_key=f"{PREFIX}-urgent",
            queue_arguments={"x-max-priority": PRIORITIES},
        ),
    ],
    event_exchange=f"{PREFIX}-events",
    event_queue_prefix=f"{PREFIX}-events",
    control_exchange=f"{PREFIX}-control",
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
)
chords = os.environ.get("CELERY_TESTS_CHORDS")
if chords:
    # Chords count their parts in a backend; the results of rpc:// are for one client only.
    app.conf.result_backend = f"file://{chords}"


@app.task
def add(left: int, right: int) -> int:
    return left + right


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(bind=True, max_retries=3)
def third_time(self: Any) -> int:
    """Fails twice, then tells how many retries it took."""
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return int(self.request.retries)


@app.task
def when() -> float:
    return time.time()


@app.task
def note(path: str, word: str) -> None:
    """Append a word to a file."""
    with Path(path).open("a") as file:
        file.write(f"{word}\n")


@app.task
def process() -> int:
    return os.getpid()


@app.task
def sleep(seconds: float) -> None:
    time.sleep(seconds)
