"""Tutorial-style programs with aio-pika (and so aiormq)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import uuid4

import aio_pika
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import DeliveryError

from tests.clients.programs import BATCH, GREETING, LOGS, SEVERITIES, TASKS, TOPICS, fibonacci
from tests.conftest import Names
from tests.waiting import PATIENCE

pytestmark = pytest.mark.broker


def run(program: Callable[[str], Awaitable[None]], url: str) -> None:
    """Run a program in an event loop, within the time allowed."""
    asyncio.run(asyncio.wait_for(program(url), PATIENCE))


async def receive(queue: AbstractQueue, count: int) -> list[bytes]:
    """Consume and acknowledge `count` messages; return their bodies."""
    found = []
    async with queue.iterator() as messages:
        async for message in messages:
            async with message.process():
                found.append(message.body)
            if len(found) == count:
                break
    return found


def test_hello_world(url: str, queue: str) -> None:
    async def program(url: str) -> None:
        async with await aio_pika.connect_robust(url) as sender, await aio_pika.connect(url) as receiver:
            outgoing = await sender.channel()
            await outgoing.declare_queue(queue)
            await outgoing.default_exchange.publish(Message(GREETING), routing_key=queue)
            incoming = await receiver.channel()
            assert await receive(await incoming.declare_queue(queue), 1) == [GREETING]

    run(program, url)


def test_work_queue(url: str, queue: str) -> None:
    async def program(url: str) -> None:
        done: dict[str, list[bytes]] = {"busy": [], "free": []}
        all_done = asyncio.Event()

        async def worker(channel: AbstractChannel, name: str) -> None:
            async def work(message: AbstractIncomingMessage) -> None:
                done[name].append(message.body)
                if name == "free":
                    await message.ack()
                if len(done["busy"]) + len(done["free"]) == len(TASKS):
                    all_done.set()

            await channel.set_qos(prefetch_count=1)
            await (await channel.declare_queue(queue, durable=True)).consume(work)

        async with await aio_pika.connect(url) as one, await aio_pika.connect(url) as two:
            busy, free = await one.channel(), await two.channel()
            await worker(busy, "busy")
            await worker(free, "free")
            for task in TASKS:
                message = Message(task, delivery_mode=DeliveryMode.PERSISTENT)
                await free.default_exchange.publish(message, routing_key=queue)
            await all_done.wait()
            assert len(done["busy"]) == 1
            assert sorted(done["busy"] + done["free"]) == TASKS

    run(program, url)


def test_publish_subscribe(url: str, names: Names) -> None:
    async def program(url: str) -> None:
        exchange_name = names("logs")
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            exchange = await channel.declare_exchange(exchange_name, ExchangeType.FANOUT)
            queues = [await channel.declare_queue(exclusive=True) for _ in range(2)]
            for queue in queues:
                await queue.bind(exchange)
            for text in LOGS.values():
                await exchange.publish(Message(text), routing_key="")
            for queue in queues:
                assert await receive(queue, len(LOGS)) == list(LOGS.values())

    run(program, url)


def test_routing(url: str, names: Names) -> None:
    async def program(url: str) -> None:
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            exchange = await channel.declare_exchange(names("direct_logs"), ExchangeType.DIRECT)
            errors, everything = [await channel.declare_queue(exclusive=True) for _ in range(2)]
            await errors.bind(exchange, "error")
            for severity in SEVERITIES:
                await everything.bind(exchange, severity)
            for severity in SEVERITIES:
                await exchange.publish(Message(severity.encode()), routing_key=severity)
            assert await receive(errors, 1) == [b"error"]
            assert await receive(everything, 3) == [severity.encode() for severity in SEVERITIES]
            assert await errors.get(fail=False) is None

    run(program, url)


def test_topics(url: str, names: Names) -> None:
    async def program(url: str) -> None:
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            exchange = await channel.declare_exchange(names("topic_logs"), ExchangeType.TOPIC)
            queues = {pattern: await channel.declare_queue(exclusive=True) for pattern in TOPICS}
            for pattern, queue in queues.items():
                await queue.bind(exchange, pattern)
            for key, text in LOGS.items():
                await exchange.publish(Message(text), routing_key=key)
            for pattern, expected in TOPICS.items():
                assert await receive(queues[pattern], len(expected)) == expected

    run(program, url)


def test_rpc(url: str, queue: str) -> None:
    async def program(url: str) -> None:
        async with await aio_pika.connect(url) as server, await aio_pika.connect(url) as client:
            served = await server.channel()

            async def answer(request: AbstractIncomingMessage) -> None:
                async with request.process():
                    assert request.reply_to
                    body = str(fibonacci(int(request.body))).encode()
                    reply = Message(body, correlation_id=request.correlation_id)
                    await served.default_exchange.publish(reply, routing_key=request.reply_to)

            await (await served.declare_queue(queue)).consume(answer)
            asking = await client.channel()
            callbacks = await asking.declare_queue(exclusive=True)
            waiting: dict[str, asyncio.Future[bytes]] = {}

            async def replied(message: AbstractIncomingMessage) -> None:
                waiting[str(message.correlation_id)].set_result(message.body)

            await callbacks.consume(replied, no_ack=True)

            async def call(n: int) -> int:
                correlation = str(uuid4())
                waiting[correlation] = asyncio.get_running_loop().create_future()
                request = Message(str(n).encode(), correlation_id=correlation, reply_to=callbacks.name)
                await asking.default_exchange.publish(request, routing_key=queue)
                return int(await waiting[correlation])

            assert await asyncio.gather(*map(call, range(20))) == list(map(fibonacci, range(20)))

    run(program, url)


def test_confirms(url: str, queue: str) -> None:
    """Confirms one by one, and for many publishes in flight; an unroutable publish raises an error."""

    async def program(url: str) -> None:
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
            declared = await channel.declare_queue(queue)
            exchange = channel.default_exchange
            for number in range(10):
                assert await exchange.publish(Message(b"%d" % number), routing_key=queue)
            await asyncio.gather(
                *(exchange.publish(Message(b"%d" % number), routing_key=queue) for number in range(10, BATCH))
            )
            with pytest.raises(DeliveryError):
                await exchange.publish(Message(b"lost"), routing_key=f"{queue}-nowhere", mandatory=True)
            assert sorted(map(int, await receive(declared, BATCH))) == list(range(BATCH))

    run(program, url)
