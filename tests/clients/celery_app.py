"""Tasks that the Celery tests run in worker processes."""

# Celery has no types, and its decorators remove those of tasks.
# mypy: disable-error-code="import-untyped, misc, untyped-decorator, no-any-return"

from __future__ import annotations

import os
import ssl
import time
from functools import partial
from pathlib import Path
from typing import Any

from celery import Celery
from kombu import Queue

import penstock.client.kombu

penstock.client.kombu.register()

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
    # With a topic exchange, delayed tasks pass through queues with TTLs, one for each bit of the delay.
    "quorum, topic exchange": {
        "task_default_queue_type": "quorum",
        "task_default_exchange": f"{PREFIX}-exchange",
        "task_default_exchange_type": "topic",
    },
}
"""Settings for each kind of queue."""


def secured() -> dict[str, Any]:
    """Return the settings for TLS: the broker is verified, and a certificate of one's own is for EXTERNAL."""
    authority, own = os.environ.get("CELERY_TESTS_AUTHORITY"), os.environ.get("CELERY_TESTS_CERTIFICATE")
    if not authority:
        return {}
    use: dict[str, Any] = {"ca_certs": authority, "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": "localhost"}
    if not own:
        return {"broker_use_ssl": use}
    return {"broker_use_ssl": {**use, "certfile": own, "keyfile": own}, "broker_login_method": "EXTERNAL"}


# Results over rpc:// are for one client only, so chords do not work with it.
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
    **secured(),
)

task = partial(app.task, shared=False)
"""Unshared: a test process has one application per worker."""


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
    """Fail twice, then return the number of retries."""
    if self.request.retries < 2:
        raise self.retry(countdown=1)
    return int(self.request.retries)


@task
def when() -> float:
    """Return the time at which the task runs."""
    return time.time()


@task
def note(path: str, word: str) -> None:
    """Append a word to a file."""
    with Path(path).open("a") as file:
        file.write(f"{word}\n")


@task
def process() -> int:
    """Return the pid of the process that runs the task."""
    return os.getpid()


@task
def sleep(seconds: float) -> None:
    """Take `seconds` seconds."""
    time.sleep(seconds)
