"""The connection on aio-pika, with the test in place of the broker: frames that aiormq hides or mistakes."""

from __future__ import annotations

import asyncio
import inspect
from asyncio import to_thread
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiormq
import pytest
from aiormq.exceptions import DeliveryError, PublishError

from penstock.client.aio_link import HANDLERS, AioLink, check, check_methods, refused
from penstock.client.outbox import Message
from tests.penstock.client.peer import Listener, Peer
from tests.waiting import PATIENCE


class Events:
    """The flow control events of a link, in order."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self._queue.put_nowait((name, *arguments))

    async def next(self) -> tuple[Any, ...]:
        return await asyncio.wait_for(self._queue.get(), PATIENCE)


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as listener:
        yield listener


@asynccontextmanager
async def opened(listener: Listener) -> AsyncIterator[tuple[AioLink, Peer, Events]]:
    """Yield a link, its peer and its events; drop the peer at the end."""
    events = Events()
    link = AioLink(listener.url, "orders", events)
    opening = asyncio.create_task(link.open(PATIENCE))
    peer = await to_thread(listener.accept)
    await opening
    try:
        yield link, peer, events
    finally:
        peer.drop()
        await link.close(PATIENCE)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(2 * PATIENCE):
            await test()

    asyncio.run(limited())


def message(body: bytes = b"x") -> Message:
    return Message(body, "x", "k", {"message_id": "7", "delivery_mode": 2}, True, None)


def test_a_publish_ends_with_the_answer_to_it(listener: Listener) -> None:
    async def test() -> None:
        async with opened(listener) as (link, peer, _):
            publishing = [asyncio.create_task(link.publish(message(b"%d" % number))) for number in range(3)]
            sent = [await to_thread(peer.take, "basic.publish") for _ in range(3)]
            assert [(each.body, each.exchange, each.routing_key) for each in sent] == [
                (b"%d" % number, "x", "k") for number in range(3)
            ]
            assert sent[0].properties == {"message_id": "7", "delivery_mode": 2}
            peer.send("basic.ack", 1, delivery_tag=1)
            await publishing[0]
            peer.send("basic.nack", 1, delivery_tag=2)
            with pytest.raises(DeliveryError):
                await publishing[1]
            assert not publishing[2].done()
            peer.send("basic.ack", 1, delivery_tag=3)
            await publishing[2]

    run(test)


def test_a_return_is_an_error_of_the_publish(listener: Listener) -> None:
    async def test() -> None:
        async with opened(listener) as (link, peer, _):
            publishing = asyncio.create_task(link.publish(message()))
            peer.give_back(await to_thread(peer.take, "basic.publish"), 312, "NO_ROUTE", depth=5)
            peer.send("basic.ack", 1, delivery_tag=1)
            with pytest.raises(PublishError) as returned:
                await publishing
            frame: Any = returned.value.frame
            assert (frame.reply_code, frame.reply_text) == (312, "NO_ROUTE")

    run(test)


def test_channel_flow_is_answered_and_disturbs_nothing(listener: Listener) -> None:
    """aiormq would take channel.flow for the answer to its next call."""

    async def test() -> None:
        async with opened(listener) as (link, peer, events):
            for active in (False, True):
                peer.send("channel.flow", 1, active=active)
                assert await events.next() == ("flow", active)
                assert (await to_thread(peer.take, "channel.flow-ok")).active is active
            publishing = asyncio.create_task(link.publish(message()))
            await to_thread(peer.take, "basic.publish")
            peer.send("basic.ack", 1, delivery_tag=1)
            await publishing

    run(test)


def test_connection_blocked_comes_with_its_reason(listener: Listener) -> None:
    async def test() -> None:
        async with opened(listener) as (_, peer, events):
            peer.send("connection.blocked", reason="queue 'q' is full")
            assert await events.next() == ("blocked", "queue 'q' is full")
            peer.send("connection.unblocked")
            assert await events.next() == ("unblocked",)
            assert peer.client_properties["product"] == "penstock producer"
            assert peer.client_properties["connection_name"] == "orders"

    run(test)


@pytest.mark.parametrize(
    ("method", "channel", "code", "text"),
    [
        ("connection.close", 0, 320, "CONNECTION_FORCED - shutdown"),
        ("channel.close", 1, 404, "NOT_FOUND - no exchange 'x'"),
    ],
)
def test_its_end_has_the_brokers_words(listener: Listener, method: str, channel: int, code: int, text: str) -> None:
    async def test() -> None:
        async with opened(listener) as (link, peer, _):
            peer.send(method, channel, code=code, text=text)
            assert await link.lost == (code, text)

    run(test)


def test_a_connection_that_breaks_has_no_reply_code(listener: Listener) -> None:
    async def test() -> None:
        async with opened(listener) as (link, peer, _):
            peer.drop()
            assert (await link.lost)[0] == 0

    run(test)


def test_a_close_is_orderly(listener: Listener) -> None:
    async def test() -> None:
        async with opened(listener) as (link, peer, _):
            closing = asyncio.create_task(link.close(PATIENCE))
            await to_thread(peer.part)
            await closing
            assert (await link.lost)[0] == 0

    run(test)


@pytest.mark.parametrize(("await_open", "code"), [(False, 403), (True, 530)])
def test_a_refusal_is_told_from_a_failure(listener: Listener, await_open: bool, code: int) -> None:
    async def test() -> None:
        link = AioLink(listener.url, "", Events())
        opening = asyncio.create_task(link.open(PATIENCE))
        peer = await to_thread(listener.connection)
        if await_open:
            await to_thread(peer.greet)
            await to_thread(peer.take, "connection.open")
        else:
            await to_thread(peer.start)
        peer.send("connection.close", code=code, text="NO")
        with pytest.raises(Exception) as failed:  # noqa: PT011 - `refused` says which
            await opening
        assert refused(failed.value)
        peer.drop()
        await link.close(PATIENCE)

    run(test)
    assert not refused(ConnectionRefusedError()) and not refused(TimeoutError())


@pytest.mark.parametrize(
    ("exchange", "properties"),
    [("x" * 256, {}), ("", {"priority": "high"}), ("", {"priority": 300}), ("", {"headers": {"a": object()}})],
)
def test_what_cannot_be_encoded_is_refused_before_it_is_sent(exchange: str, properties: dict[str, Any]) -> None:
    check("x", "k", {"priority": 5, "headers": {"a": 1}})
    with pytest.raises((ValueError, TypeError)):
        check(exchange, "k", properties)


def test_aiormq_has_the_private_methods_that_are_tapped() -> None:
    check_methods()
    for handler in HANDLERS.values():
        assert inspect.iscoroutinefunction(getattr(aiormq.Connection, handler)), handler


def test_another_version_of_aiormq_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(aiormq.Connection, HANDLERS["close"])
    with pytest.raises(
        ImportError, match=r"^aiormq 7\S+ has no _Connection__handle_close: pip install 'penstock\[client\]'"
    ):
        check_methods()
