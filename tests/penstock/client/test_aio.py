"""The producer for asyncio, with the test in place of its broker."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.client import (
    Closed,
    ConnectionLost,
    FlowCommand,
    NotConnected,
    Refused,
    Rejected,
    Stopped,
    TimedOut,
    Unroutable,
    WindowFull,
)
from penstock.client.aio import AsyncProducer
from tests.penstock.client.peer import Listener
from tests.ports import closed_port
from tests.waiting import PATIENCE


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as listener:
        yield listener


class Connected:
    """A producer and its peer."""

    def __init__(self, listener: Listener, **options: Any) -> None:
        self.listener = listener
        self.producer = AsyncProducer(listener.url, **options)

    async def open(self) -> None:
        opening = asyncio.create_task(self.producer.open())
        await self.accept()
        await opening

    async def accept(self) -> None:
        self.peer = await to_thread(self.listener.accept)

    async def send(self, body: bytes, **options: Any) -> asyncio.Future[str]:
        receipt = await self.producer.send(body, "q", timeout=PATIENCE, **options)
        assert receipt is not None
        return receipt

    async def bodies(self, count: int) -> list[bytes]:
        return await to_thread(self.peer.take_bodies, count)

    async def close(self) -> None:
        closing = asyncio.create_task(self.producer.close(0))
        await to_thread(self.peer.part)
        await closing


@asynccontextmanager
async def opened(listener: Listener, **options: Any) -> AsyncIterator[Connected]:
    connected = Connected(listener, **options)
    await connected.open()
    try:
        yield connected
    finally:
        await connected.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(2 * PATIENCE):
            await test()

    asyncio.run(limited())


def test_a_message_is_confirmed_by_its_id(listener: Listener) -> None:
    async def test() -> None:
        async with opened(listener) as connected:
            receipts = [await connected.send(b"1", properties={"message_id": "7"}), await connected.send(b"2")]
            first, second = [await to_thread(connected.peer.take, "basic.publish") for _ in range(2)]
            assert (first.body, first.routing_key, first.mandatory) == (b"1", "q", True)
            assert first.properties == {"delivery_mode": 2, "message_id": "7"}
            connected.peer.send("basic.ack", 1, delivery_tag=2, multiple=True)
            assert [await receipt for receipt in receipts] == ["7", second.properties["message_id"]]

    run(test)


def test_waiting_senders_are_served_in_order_of_arrival(listener: Listener) -> None:
    async def test() -> None:
        async with opened(listener, window_count=1) as connected:
            await connected.send(b"1")
            why = f"1 of 1 messages to {listener.address} are not confirmed"
            with pytest.raises(WindowFull, match=why):
                await connected.producer.send(b"no", "q", on_full="raise")
            with pytest.raises(TimedOut, match=rf"after 0\.\d s: {why}"):
                await connected.producer.send(b"no", "q", timeout=0)
            assert await connected.producer.send(b"no", "q", on_full="drop") is None
            senders = [asyncio.create_task(connected.send(body)) for body in (b"2", b"3", b"4")]
            for tag, body in enumerate((b"1", b"2", b"3"), start=1):
                assert await connected.bodies(1) == [body]
                assert [sender.done() for sender in senders] == [number < tag - 1 for number in range(3)]
                connected.peer.send("basic.ack", 1, delivery_tag=tag)
            assert await connected.bodies(1) == [b"4"]
            metrics = connected.producer.metrics()
            assert (metrics.full, metrics.timed_out, metrics.dropped, metrics.accepted) == (1, 1, 1, 4)

    run(test)


def test_the_brokers_flow_control_stops_and_resumes_it(listener: Listener) -> None:
    async def test() -> None:
        reported: asyncio.Queue[FlowCommand] = asyncio.Queue()
        async with opened(listener, on_flow=reported.put_nowait) as connected:
            connected.peer.send("channel.flow", 1, active=False)
            assert await reported.get() == (True, "flow", "", 0.0)
            with pytest.raises(Stopped, match=f"^channel.flow of {listener.address}$"):
                await connected.producer.send(b"no", "q", on_full="raise")
            assert (await to_thread(connected.peer.take, "channel.flow-ok")).active is False
            connected.peer.send("connection.blocked", reason="queue 'q' is full")
            assert await reported.get() == (True, "blocked", "queue 'q' is full", 0.0)
            sending = asyncio.create_task(connected.send(b"at last"))
            connected.peer.send("channel.flow", 1, active=True)
            assert (await reported.get())[:2] == (False, "flow")
            assert (await to_thread(connected.peer.take, "channel.flow-ok")).active is True
            assert not sending.done(), "it is still blocked"
            connected.peer.send("connection.unblocked")
            assert (await reported.get())[:2] == (False, "blocked")
            await sending
            assert await connected.bodies(1) == [b"at last"]

    run(test)


def test_unconfirmed_messages_are_sent_again_after_a_loss(listener: Listener) -> None:
    async def test() -> None:
        async with opened(listener) as connected:
            receipts = [await connected.send(b"%d" % number) for number in range(3)]
            sent = [await to_thread(connected.peer.take, "basic.publish") for _ in range(3)]
            connected.peer.send("basic.ack", 1, delivery_tag=1)
            await receipts[0]
            connected.peer.drop()
            await connected.accept()
            again = [await to_thread(connected.peer.take, "basic.publish") for _ in range(2)]
            assert again == sent[1:], "with the same ids, in order"
            connected.peer.send("basic.ack", 1, delivery_tag=2, multiple=True)
            assert [await receipt for receipt in receipts[1:]] == [each.properties["message_id"] for each in again]
            metrics = connected.producer.metrics()
            assert (metrics.sent, metrics.sent_again, metrics.connections, metrics.unconfirmed) == (3, 2, 2, 0)

    run(test)


def test_each_refusal_of_the_broker_fails_its_message_only(listener: Listener) -> None:
    async def test() -> None:
        async with opened(listener) as connected:
            returned, nacked = await connected.send(b"returned"), await connected.send(b"nacked")
            publish = await to_thread(connected.peer.take, "basic.publish")
            connected.peer.give_back(publish, 312, "NO_ROUTE", depth=5)
            connected.peer.send("basic.ack", 1, delivery_tag=1)
            with pytest.raises(Unroutable, match=r"^312 NO_ROUTE: exchange '', routing key 'q'$") as unroutable:
                await returned
            assert unroutable.value.headers == {"depth": 5}
            assert await connected.bodies(1) == [b"nacked"]
            connected.peer.send("basic.nack", 1, delivery_tag=2)
            with pytest.raises(Rejected, match=f"refused by {listener.address}: exchange '', routing key 'q'"):
                await nacked
            refused = await connected.send(b"refused", exchange="none")
            assert await connected.bodies(1) == [b"refused"]
            connected.peer.send("channel.close", 1, code=404, text="NOT_FOUND - no exchange 'none'")
            with pytest.raises(Refused, match=r"^404 NOT_FOUND - no exchange 'none'$"):
                await refused
            await to_thread(connected.peer.part)
            await connected.accept()
            good = await connected.send(b"good")
            assert await connected.bodies(1) == [b"good"]
            connected.peer.send("basic.ack", 1, delivery_tag=1)
            assert await good

    run(test)


def test_a_flush_waits_for_every_confirm(listener: Listener) -> None:
    async def test() -> None:
        async with opened(listener) as connected:
            await connected.producer.flush(0)
            receipt = await connected.send(b"x")
            with pytest.raises(TimedOut, match=f"1 messages to {listener.address} are not confirmed"):
                await connected.producer.flush(0)
            flushing = asyncio.create_task(connected.producer.flush())
            assert await connected.bodies(1) == [b"x"]
            assert not flushing.done()
            connected.peer.send("basic.ack", 1, delivery_tag=1)
            await flushing
            assert receipt.done()

    run(test)


def test_what_is_not_confirmed_at_the_end_fails_as_closed(listener: Listener) -> None:
    async def test() -> None:
        async with opened(listener) as connected:
            receipt = await connected.send(b"x")
        with pytest.raises(Closed, match="the producer was closed"):
            await receipt
        with pytest.raises(Closed, match="the producer is closed"):
            await connected.producer.send(b"late", "q")
        assert connected.producer.metrics().given_up == 1

    run(test)


@pytest.mark.parametrize("failure", [None, KeyError("of the block")])
def test_the_end_of_with_reports_missing_confirms_or_the_blocks_own_error(
    listener: Listener, failure: Exception | None
) -> None:
    async def use() -> None:
        async with AsyncProducer(listener.url, close_seconds=0) as producer:
            await producer.send(b"x", "q")
            if failure:
                raise failure

    async def test() -> None:
        using = asyncio.create_task(use())
        peer = await to_thread(listener.accept)
        await to_thread(peer.part)
        with pytest.raises(KeyError if failure else TimedOut):
            await using

    run(test)


def test_a_broker_that_is_not_there_or_refuses_is_an_error_of_open(listener: Listener) -> None:
    async def test() -> None:
        with closed_port() as port:
            producer = AsyncProducer(f"amqp://127.0.0.1:{port}/", connect_seconds=0.1)
            with pytest.raises(NotConnected, match="yet"):
                await producer.send(b"x", "q", on_full="raise")
            with pytest.raises(ConnectionLost, match=rf"no connection to 127\.0\.0\.1:{port}"):
                await producer.open()
        producer = AsyncProducer(listener.url, connect_seconds=PATIENCE)
        opening = asyncio.create_task(producer.open())
        peer = await to_thread(listener.connection)
        await to_thread(peer.start)
        peer.send("connection.close", code=403, text="ACCESS_REFUSED - wrong password")
        with pytest.raises(ConnectionLost, match="ACCESS_REFUSED - wrong password"):
            await opening
        with pytest.raises(ConnectionLost, match="ACCESS_REFUSED - wrong password"):
            await producer.send(b"x", "q")

    run(test)


@pytest.mark.parametrize("options", [{"exchange": "x" * 256}, {"properties": {"headers": {"a": object()}}}])
def test_what_cannot_be_encoded_is_the_callers_error(listener: Listener, options: dict[str, Any]) -> None:
    async def test() -> None:
        async with opened(listener) as connected:
            with pytest.raises((ValueError, TypeError)):
                await connected.producer.send(b"x", **options)
            await connected.send(b"next")
            assert await connected.bodies(1) == [b"next"]
            assert connected.producer.metrics().accepted == 1

    run(test)
