"""Messages over ZeroMQ sockets on a loop: none is missed, and none blocks the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import zmq

from penstock.bus.endpoint import READ_AT_MOST, Endpoint, open_socket, subscribe
from tests.waiting import PATIENCE

ADDRESS = "inproc://endpoint"


@pytest.fixture
def context() -> Iterator[zmq.Context[Any]]:
    context: zmq.Context[Any] = zmq.Context()
    yield context
    context.destroy(linger=0)


class Messages:
    """The messages that an endpoint receives, and their number at the end of each reading."""

    def __init__(self) -> None:
        self.received: list[list[bytes]] = []
        self.drained: list[int] = []
        self._came = asyncio.Event()

    def on_frames(self, frames: list[bytes]) -> None:
        self.received.append(frames)
        self._came.set()

    def on_drained(self) -> None:
        self.drained.append(len(self.received))

    async def wait(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.received) < count:
                self._came.clear()
                await self._came.wait()
            await asyncio.sleep(0)  # the reading ends


def bound(context: zmq.Context[Any], kind: int) -> zmq.Socket[bytes]:
    socket = open_socket(context, kind)
    socket.bind(ADDRESS)
    return socket


def connected(context: zmq.Context[Any], kind: int) -> zmq.Socket[bytes]:
    socket = open_socket(context, kind)
    socket.connect(ADDRESS)
    return socket


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_all_that_waits_is_read_with_a_turn_of_the_loop_in_between(context: zmq.Context[Any]) -> None:
    async def test() -> None:
        messages, sender = Messages(), bound(context, zmq.PUSH)
        receiver = connected(context, zmq.PULL)
        sent = [[b"%d" % number, b"more"] for number in range(2 * READ_AT_MOST + 10)]
        for frames in sent:
            sender.send_multipart(frames)
        endpoint = Endpoint(asyncio.get_running_loop(), receiver, messages.on_frames, messages.on_drained)
        await messages.wait(len(sent))
        assert messages.received == sent
        assert messages.drained == [READ_AT_MOST, 2 * READ_AT_MOST, len(sent)]
        endpoint.close()

    run(test)


def test_a_message_whose_signal_a_send_has_swallowed_is_read(context: zmq.Context[Any]) -> None:
    async def test() -> None:
        messages, peer = Messages(), bound(context, zmq.PAIR)
        endpoint = Endpoint(asyncio.get_running_loop(), connected(context, zmq.PAIR), messages.on_frames)
        await asyncio.sleep(0)
        peer.send(b"first")
        assert endpoint.readable(), "which takes the signal"
        endpoint.send([b"to", b"the peer"])
        await messages.wait(1)
        assert messages.received == [[b"first"]] and peer.recv_multipart() == [b"to", b"the peer"]
        endpoint.close()

    run(test)


def test_a_failure_goes_to_the_loops_handler_and_the_next_message_is_read(context: zmq.Context[Any]) -> None:
    async def test() -> None:
        failures: list[tuple[str, str]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, facts: failures.append((facts["message"], str(facts["exception"]))))
        messages, sender = Messages(), bound(context, zmq.PUSH)

        def on_frames(frames: list[bytes]) -> None:
            messages.on_frames(frames)
            if frames == [b"bad"]:
                raise ValueError("of the message")

        def on_drained() -> None:
            raise ValueError("of the turn")

        receiver = connected(context, zmq.PULL)
        for body in (b"bad", b"good"):
            sender.send(body)
        endpoint = Endpoint(loop, receiver, on_frames, on_drained)
        await messages.wait(2)
        assert failures == [("a message failed", "of the message"), ("a turn failed", "of the turn")]
        sender.send(b"later")
        await messages.wait(3)
        assert messages.received == [[b"bad"], [b"good"], [b"later"]]
        endpoint.close()

    run(test)


def test_a_closed_endpoint_reads_nothing_more(context: zmq.Context[Any]) -> None:
    async def test() -> None:
        messages, sender = Messages(), bound(context, zmq.PUSH)
        endpoint = Endpoint(asyncio.get_running_loop(), connected(context, zmq.PULL), messages.on_frames)
        sender.send(b"x")
        endpoint.check()
        assert endpoint.scheduled
        endpoint.close()
        endpoint.close()
        assert not endpoint.readable() and endpoint.socket.closed
        await asyncio.sleep(0)
        assert not endpoint.scheduled and not messages.received

    run(test)


def test_a_send_to_a_peer_that_is_not_there_fails(context: zmq.Context[Any]) -> None:
    async def test() -> None:
        socket = bound(context, zmq.ROUTER)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        endpoint = Endpoint(asyncio.get_running_loop(), socket, lambda frames: None)
        with pytest.raises(zmq.ZMQError):
            endpoint.send([b"nobody", b"x"])
        endpoint.close()

    run(test)


def test_a_subscriber_that_is_late_misses_nothing(context: zmq.Context[Any]) -> None:
    """The default high-water mark would drop all but the first 2,000."""

    async def test() -> None:
        messages, publisher = Messages(), bound(context, zmq.XPUB)
        endpoint = subscribe(asyncio.get_running_loop(), context, ADDRESS, messages.on_frames)
        assert publisher.recv() == b"\x01", "the subscription to everything"
        for number in range(5000):
            publisher.send(b"%d" % number)
        await messages.wait(5000)
        assert messages.received == [[b"%d" % number] for number in range(5000)]
        endpoint.close()

    run(test)
