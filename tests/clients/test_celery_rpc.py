"""Celery with results over AMQP (rpc://): the worker publishes them to a queue of the client."""

# Celery and kombu create their names on first use, where a type checker cannot see them, and have no types.
# mypy: disable-error-code="import-untyped, attr-defined"

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from celery import chain, group

from tests.clients.celery_worker import Worker, running
from tests.raw import Address
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("celery-rpc")]


@pytest.fixture(scope="module", params=["amqp", "penstock"])
def worker(
    request: pytest.FixtureRequest, address: Address, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    url = address.url.replace("amqp", request.param, 1)
    with running(Worker(url, tmp_path_factory.mktemp("celery"), results="rpc")) as worker:
        yield worker


def test_results(worker: Worker) -> None:
    add = worker.module.add
    assert group(add.s(n, n) for n in range(100)).apply_async().get(PATIENCE) == [2 * n for n in range(100)]
    assert chain(add.s(1, 2), add.s(3))().get(PATIENCE) == 6


def test_results_of_tasks_for_later(worker: Worker) -> None:
    asked = time.time()
    later = [worker.module.when.apply_async(countdown=2) for _ in range(10)]
    retried = worker.module.third_time.delay()
    assert worker.module.add.delay(1, 2).get(PATIENCE) == 3
    assert all(result.get(PATIENCE) >= asked + 2 for result in later)
    assert retried.get(PATIENCE) == 2
