"""Celery in ordinary use: a worker with a prefork pool, and this process as its client and operator.

Tests with quorum queues are in `test_celery_quorum.py`.
"""

# Celery and kombu create their names on first use, where a type checker cannot see them, and have no types.
# mypy: disable-error-code="import-untyped, attr-defined, no-any-return, no-untyped-call, name-defined"

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import kombu
import pytest
from celery import chord, group
from kombu.pidbox import Mailbox

from tests.clients.celery_worker import Worker, running
from tests.raw import Address
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def worker(address: Address, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with running(Worker(address.url, tmp_path_factory.mktemp("celery"))) as worker:
        yield worker


def test_results_of_a_prefork_pool(worker: Worker) -> None:
    found = group(worker.module.process.s() for _ in range(20)).apply_async().get(PATIENCE)
    assert worker.process.pid not in found
    assert worker.module.add.delay(2, 3).get(PATIENCE) == 5


def test_retries(worker: Worker) -> None:
    assert worker.module.third_time.delay().get(PATIENCE) == 2


def test_a_task_with_an_eta_is_not_run_before(worker: Worker) -> None:
    asked = time.time()
    assert worker.module.when.apply_async(countdown=1).get(PATIENCE) >= asked + 1


def test_tasks_for_later_keep_no_others_from_being_run(worker: Worker) -> None:
    """The worker raises its prefetch by one for each task that it keeps until its time."""
    later = [worker.module.when.apply_async(countdown=25) for _ in range(30)]
    assert worker.module.add.delay(1, 2).get(PATIENCE) == 3
    assert not any(result.ready() for result in later)
    for result in later:
        result.get(PATIENCE)


def test_a_chord(worker: Worker) -> None:
    parts = (worker.module.add.s(number, number) for number in range(10))
    assert chord(parts)(worker.module.total.s()).get(PATIENCE) == 90


def test_the_most_urgent_task_comes_first(worker: Worker, tmp_path: Path) -> None:
    """Tasks wait in a queue with priorities until the worker consumes from it."""
    notes, queue = tmp_path / "notes", f"{worker.prefix}-urgent"
    worker.app.control.pool_shrink(1, destination=[worker.name], reply=True, timeout=PATIENCE)
    with worker.app.connection_for_write() as connection:
        declared = worker.app.amqp.queues[queue].bind(connection.default_channel)
        declared.declare()
        for priority in (0, 9, 5, 1, 7):
            worker.module.note.apply_async((str(notes), str(priority)), queue=queue, priority=priority)
        wait_for(lambda: declared.queue_declare(passive=True).message_count == 5, what="tasks that wait")
    worker.app.control.add_consumer(queue, destination=[worker.name], reply=True, timeout=PATIENCE)
    wait_for(lambda: notes.exists() and len(notes.read_text().split()) == 5, PATIENCE, "all to be run")
    worker.app.control.cancel_consumer(queue, destination=[worker.name], reply=True, timeout=PATIENCE)
    worker.app.control.pool_grow(1, destination=[worker.name], reply=True, timeout=PATIENCE)
    first, *others = notes.read_text().split()
    assert (first, others) == ("9", ["7", "5", "1", "0"])


def test_remote_control(worker: Worker) -> None:
    inspect = worker.inspect()
    assert inspect.ping() == {worker.name: {"ok": "pong"}}
    assert [queue["name"] for queue in inspect.active_queues()[worker.name]] == [f"{worker.prefix}-tasks"]
    late = worker.module.add.apply_async((1, 1), countdown=600)
    wait_for(lambda: late.id in str(worker.inspect().scheduled()), PATIENCE, "the task to be scheduled")
    worker.app.control.revoke(late.id, reply=True, timeout=PATIENCE, destination=[worker.name])
    assert late.id in worker.inspect().revoked()[worker.name]


def test_events(worker: Worker) -> None:
    seen: list[str] = []
    wanted = {"task-received", "task-started", "task-succeeded"}
    with worker.app.connection_for_read() as connection:
        receiver = worker.app.events.Receiver(connection, handlers={"*": lambda event: seen.append(event["type"])})
        asked = False
        for _ in receiver.itercapture(timeout=PATIENCE, wakeup=False):
            if not asked:  # a heartbeat of the worker has arrived, so events are received
                asked = bool(worker.module.add.delay(1, 1))
            if wanted <= set(seen):
                break
    assert wanted <= set(seen)


def test_a_mailbox_of_kombu(url: str) -> None:
    mailbox = Mailbox(f"mailbox-{uuid4().hex[:8]}", type="direct")
    with kombu.Connection(url) as serving, kombu.Connection(url) as asking:
        node = mailbox(serving).Node("node", state={"words": []}, channel=serving.channel())
        node.handlers["echo"] = lambda state, word: f"{word} {word}"
        with node.listen():
            replies: list[Any] = []
            caller = threading.Thread(
                target=lambda: replies.extend(
                    mailbox(asking)._broadcast("echo", {"word": "hey"}, ["node"], reply=True, timeout=PATIENCE, limit=1)
                )
            )
            caller.start()
            while caller.is_alive():
                try:
                    serving.drain_events(timeout=0.2)
                except TimeoutError:
                    continue
            caller.join()
    assert replies == [{"node": "hey hey"}]
