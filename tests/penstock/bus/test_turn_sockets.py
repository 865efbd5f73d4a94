"""Turns over real sockets: between two of our own, and with libzmq on the other side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
import zmq

from penstock import bus
from penstock.batch.arena import Borrower
from penstock.bus import zmtp_cy
from penstock.bus.operations_cy import Operation
from penstock.bus.to_acceptor import Cancelled
from penstock.bus.to_shard import Publish
from penstock.bus.turn_sockets import TurnDialer, TurnListener, TurnSockets

PATIENCE = 50
LARGE = b"large" * 500_000


class Side:
    """One process's side: the turns that it receives."""

    def __init__(self) -> None:
        self.turns: list[tuple[bytes, int, list[Any], list[bytes], int]] = []
        self.drained = 0
        self.came = asyncio.Event()
        self.sockets = TurnSockets(asyncio.get_running_loop(), Borrower(1), self.on_drained)

    def on_turn(
        self, peer: bytes, turn: int, version: int, last_report: int, operations: list[list[Any]], parts: list[Any],
        nbytes: int,
    ) -> None:  # fmt: skip
        self.turns.append((peer, turn, operations, [bytes(part) for part in parts], nbytes))
        self.came.set()

    def on_drained(self) -> None:
        self.drained += 1

    def listen(self, path: Path) -> TurnListener:
        """Listen, and keep a reference: a listener without one is closed once it is collected."""
        self.listener = TurnListener(self.sockets, path, self.on_turn)
        return self.listener

    async def wait(self, count: int) -> None:
        while len(self.turns) < count:
            self.came.clear()
            await asyncio.wait_for(self.came.wait(), PATIENCE)


def in_loop(test: Callable[[Path], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        uvloop.run(test(tmp_path))

    return run


PUBLISH = Publish([1], 0, 0, 1, False, 0)
ANSWER = Cancelled(7)


def turn(number: int, *parts: bytes, operation: Operation = PUBLISH) -> list[Any]:
    made = bus.Turn()
    made.add(operation)
    for part in parts:
        made.place(part)
    return made.frames(number, 1)


@in_loop
async def test_turns_go_both_ways_whatever_their_size(tmp_path: Path) -> None:
    shard, acceptor = Side(), Side()
    listener = shard.listen(tmp_path / "shard")
    dialer = TurnDialer(acceptor.sockets, tmp_path / "shard", b"acceptor.0.1", acceptor.on_turn)
    dialer.send(turn(1, b"small"))
    for number in range(2, 12):
        dialer.send(turn(number, LARGE, b"small", LARGE))
    await shard.wait(11)
    assert [number for _, number, *_ in shard.turns] == list(range(1, 12))
    assert {peer for peer, *_ in shard.turns} == {b"acceptor.0.1"}
    assert shard.turns[-1][3] == [LARGE, b"small", LARGE]
    assert shard.turns[-1][4] > 2 * len(LARGE)
    assert shard.drained
    assert listener.send(b"acceptor.0.1", turn(7, b"report", operation=ANSWER))
    await acceptor.wait(1)
    assert acceptor.turns[0][:4] == (b"", 7, [ANSWER], [b"report"])
    dialer.close()


@in_loop
async def test_who_is_not_there_is_not_reached(tmp_path: Path) -> None:
    shard, acceptor = Side(), Side()
    listener = shard.listen(tmp_path / "shard")
    assert not listener.send(b"acceptor.0.1", turn(1))
    dialer = TurnDialer(acceptor.sockets, tmp_path / "shard", b"acceptor.0.1", acceptor.on_turn)
    dialer.send(turn(1))
    await shard.wait(1)
    await dialer.finish()
    await listener.take_rest()
    assert not listener.send(b"acceptor.0.1", turn(2))


@in_loop
async def test_a_dialer_waits_for_the_listener(tmp_path: Path) -> None:
    shard, acceptor = Side(), Side()
    dialer = TurnDialer(acceptor.sockets, tmp_path / "shard", b"acceptor.0.1", acceptor.on_turn)
    dialer.send(turn(1, b"early"))
    await asyncio.sleep(0.05)
    shard.listen(tmp_path / "shard")
    await shard.wait(1)
    assert shard.turns[0][3] == [b"early"]
    dialer.close()


@in_loop
async def test_what_was_sent_before_the_end_arrives(tmp_path: Path) -> None:
    shard, acceptor = Side(), Side()
    listener = shard.listen(tmp_path / "shard")
    dialer = TurnDialer(acceptor.sockets, tmp_path / "shard", b"acceptor.0.1", acceptor.on_turn)
    dialer.send(turn(1, b"first"))
    await shard.wait(1)
    for number in range(2, 100):
        dialer.send(turn(number, b"x" * 2000))
    await dialer.finish()
    await listener.take_rest()
    assert [number for _, number, *_ in shard.turns] == list(range(1, 100))


@in_loop
async def test_a_turn_that_fails_leaves_the_connection(tmp_path: Path) -> None:
    shard, acceptor = Side(), Side()
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))
    shard.listen(tmp_path / "shard")
    dialer = TurnDialer(acceptor.sockets, tmp_path / "shard", b"acceptor.0.1", acceptor.on_turn)
    dialer.send([b"\xc1"])  # never used in msgpack
    dialer.send(turn(2, b"good"))
    await shard.wait(1)
    assert len(reported) == 1
    dialer.close()


@in_loop
async def test_a_peer_that_does_not_speak_zmtp_is_disconnected(tmp_path: Path) -> None:
    shard, acceptor = Side(), Side()
    shard.listen(tmp_path / "shard")
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "shard"))
    writer.write(b"AMQP\0\0\x09\x01".ljust(100))
    said = await asyncio.wait_for(reader.read(), PATIENCE)
    assert said.startswith(zmtp_cy.GREETING)
    writer.close()
    dialer = TurnDialer(acceptor.sockets, tmp_path / "shard", b"acceptor.0.1", acceptor.on_turn)
    dialer.send(turn(1))
    await shard.wait(1)
    dialer.close()


@in_loop
async def test_a_dealer_of_libzmq_is_understood(tmp_path: Path) -> None:
    shard = Side()
    listener = shard.listen(tmp_path / "shard")
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.IDENTITY, b"acceptor.5.1")
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.connect(f"ipc://{tmp_path}/shard")
        dealer.send_multipart(turn(1, b"small", LARGE))
        await shard.wait(1)
        assert shard.turns[0][3] == [b"small", LARGE]
        assert listener.send(b"acceptor.5.1", turn(2, LARGE))
        assert await asyncio.to_thread(dealer.poll, 1000 * PATIENCE)
        assert dealer.recv_multipart()[1] == LARGE


@in_loop
async def test_a_router_of_libzmq_understands(tmp_path: Path) -> None:
    acceptor = Side()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.setsockopt(zmq.LINGER, 0)
        router.bind(f"ipc://{tmp_path}/shard")
        dialer = TurnDialer(acceptor.sockets, tmp_path / "shard", b"acceptor.0.1", acceptor.on_turn)
        dialer.send(turn(1, LARGE))
        assert await asyncio.to_thread(router.poll, 1000 * PATIENCE)
        identity, _, part = router.recv_multipart()
        assert (identity, part) == (b"acceptor.0.1", LARGE)
        router.send_multipart([identity, *turn(2, b"back", LARGE, operation=ANSWER)])
        await acceptor.wait(1)
        assert acceptor.turns[0][3] == [b"back", LARGE]
        dialer.close()


def test_a_path_that_cannot_be_listened_at(tmp_path: Path) -> None:
    async def listen() -> None:
        side = Side()
        with pytest.raises(OSError, match="No such file"):
            side.listen(tmp_path / "none" / "shard")

    uvloop.run(listen())
