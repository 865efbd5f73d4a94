"""taskiq with its broker on aio-pika: tasks at once, and delayed in both of its ways, by a delayed message exchange and
by a queue whose messages expire.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest
from taskiq.api import run_receiver_task
from taskiq_aio_pika import AioPikaBroker, Exchange, Queue

from tests.conftest import Names
from tests.raw import Address
from tests.waiting import PATIENCE

pytestmark = pytest.mark.broker

DELAYS = [0.4, 0, 0.1, 0.3, 0.2]


@pytest.mark.parametrize("by_exchange", [True, False], ids=["delayed message exchange", "delay queue"])
def test_tasks_are_run_at_their_time_and_once(address: Address, names: Names, by_exchange: bool) -> None:
    more: dict[str, Any] = (
        {"delayed_message_exchange_plugin": True} if by_exchange else {"delay_queue": Queue(name=names("delay"))}
    )
    broker = AioPikaBroker(
        address.url, exchange=Exchange(name=names("x")), task_queues=[Queue(name=names("q"))],
        dead_letter_queue=Queue(name=names("dead")), **more,
    )  # fmt: skip
    asyncio.run(delayed_tasks(broker, in_order=by_exchange))


async def delayed_tasks(broker: AioPikaBroker, in_order: bool) -> None:
    ran: asyncio.Queue[tuple[float, float]] = asyncio.Queue()

    @broker.task(task_name="task")
    async def task(delay: float, asked: float) -> None:
        assert time.time() >= asked + delay
        await ran.put((delay, asked))

    broker.is_worker_process = True
    await broker.startup()
    worker = asyncio.create_task(run_receiver_task(broker))
    # Messages behind a longer delay in a queue with expirations wait for it, as with RabbitMQ.
    delays = DELAYS if in_order else sorted(DELAYS)
    asked = time.time()
    for delay in delays:
        await task.kicker().with_labels(**({"delay": delay} if delay else {})).kiq(delay, asked)
    found = [(await asyncio.wait_for(ran.get(), PATIENCE))[0] for _ in delays]
    assert found == sorted(DELAYS) and ran.empty()
    worker.cancel()
    with suppress(asyncio.CancelledError):
        await worker
    await broker.shutdown()
