"""Celery with quorum queues: it sets no global prefetch for them, and may leave delayed tasks to the broker.

With a direct exchange, the default, the worker keeps delayed tasks and raises its prefetch for each. With a topic
exchange they wait in the broker (kombu's native delayed delivery): in 28 queues with TTLs of 1, 2, 4 … seconds, each
dead-lettered to the next. A task passes through the queues whose TTLs add up to its delay.
"""

# Celery and kombu create their names on first use, where a type checker cannot see them, and have no types.
# mypy: disable-error-code="import-untyped, attr-defined, no-any-return"

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from celery import chain, chord, group

from tests.clients.celery_worker import Worker, running
from tests.raw import Address
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("celery-quorum")]

DIRECT, TOPIC = "quorum", "quorum, topic exchange"


@pytest.fixture(scope="module", params=[DIRECT, TOPIC])
def worker(
    request: pytest.FixtureRequest, address: Address, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    with running(Worker(address.url, tmp_path_factory.mktemp("celery"), request.param)) as worker:
        yield worker


direct = pytest.mark.parametrize("worker", [DIRECT], indirect=True, scope="module")
topic = pytest.mark.parametrize("worker", [TOPIC], indirect=True, scope="module")


def waiting(worker: Worker, queue: str) -> int:
    with worker.app.connection_for_read() as connection:
        return int(connection.default_channel.queue_declare(queue, passive=True).message_count)


def test_the_worker_knows_its_queues(worker: Worker) -> None:
    assert "Global QoS is disabled" in worker.log
    assert not [line for line in worker.log.splitlines() if "ERROR" in line or "CRITICAL" in line]


def test_results(worker: Worker) -> None:
    add = worker.module.add
    assert group(add.s(n, n) for n in range(50)).apply_async().get(PATIENCE) == [2 * n for n in range(50)]
    assert chain(add.s(1, 2), add.s(3))().get(PATIENCE) == 6


def test_retries(worker: Worker) -> None:
    assert worker.module.third_time.delay().get(PATIENCE) == 2


def test_a_chord(worker: Worker) -> None:
    parts = (worker.module.add.s(number, number) for number in range(10))
    assert chord(parts)(worker.module.total.s()).get(PATIENCE) == 90


def test_tasks_are_run_at_their_time(worker: Worker) -> None:
    """With more delayed tasks than the prefetch, none runs early and none is lost."""
    asked = time.time()
    by_countdown = [(n % 6 + 1, worker.module.when.apply_async(countdown=n % 6 + 1)) for n in range(24)]
    eta = datetime.now(UTC) + timedelta(seconds=3)
    by_eta = [worker.module.when.apply_async(eta=eta) for _ in range(10)]
    for seconds, result in by_countdown:
        assert result.get(PATIENCE) >= asked + seconds
    for result in by_eta:
        assert result.get(PATIENCE) >= eta.timestamp()


@direct
def test_tasks_for_later_keep_no_others_from_being_run(worker: Worker) -> None:
    before = worker.scheduled()
    for _ in range(30):
        worker.module.when.apply_async(countdown=600)
    assert worker.module.add.delay(1, 2).get(PATIENCE) == 3
    wait_for(lambda: worker.scheduled() == before + 30, what="all of them to be with the worker")


@topic
def test_tasks_for_later_wait_in_the_broker(worker: Worker) -> None:
    before = waiting(worker, "celery_delayed_9")
    for _ in range(30):
        worker.module.when.apply_async(countdown=600)
    wait_for(lambda: waiting(worker, "celery_delayed_9") == before + 30, what="tasks in the queue of 512 s")
    assert worker.module.add.delay(1, 2).get(PATIENCE) == 3
    assert worker.scheduled() == 0
