"""Large contents, passed between processes by reference: they arrive whole and in order, even if a process dies."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.outcomes import Confirms, wait_get
from tests.raw import Client

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

SIZES = [15_000, 16_384, 65_536, 131_064, 131_065, 400_000, 524_288, 700_000]
ARENA = 4 * 524_288


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, f"arena_bytes={ARENA}", acceptors=2, shards=2) as broker:
        yield broker


def contents(count: int, seed: int = 0) -> list[bytes]:
    chance = random.Random(seed)
    return [chance.randbytes(chance.choice(SIZES)) for _ in range(count)]


def publish(client: Client, queue: str, bodies: list[bytes]) -> None:
    channel = client.channel()
    confirms = Confirms(channel)
    for body in bodies:
        confirms.publish(body, queue)
    confirms.wait()


@pytest.mark.parametrize("arena", [0, ARENA])
def test_every_size_arrives_whole(tmp_path: Path, arena: int) -> None:
    """More contents than the arena has room for, to a queue with a consumer and one without, through both acceptors."""
    with Broker(tmp_path, f"arena_bytes={arena}", acceptors=2, shards=2) as broker:
        clients = [Client.connect(broker.address) for _ in range(4)]
        for number, (giver, taker) in enumerate([(0, 1), (1, 2), (2, 3), (3, 0)]):
            bodies = contents(24, number)
            consumed = clients[taker].channel()
            consumed.call("queue.declare", queue=f"consumed {number}")
            consumed.call("basic.consume", queue=f"consumed {number}", no_ack=True)
            consumed.call("queue.declare", queue=f"kept {number}")
            publish(clients[giver], f"consumed {number}", bodies)
            publish(clients[giver], f"kept {number}", bodies)
            assert [consumed.take("basic.deliver").body for _ in bodies] == bodies
            got = clients[giver].channel()
            assert [wait_get(got, f"kept {number}").body for _ in bodies] == bodies
        for client in clients:
            client.close()


def test_what_was_lent_survives_its_owner(own: Broker) -> None:
    """Unacked large messages of a dead acceptor's producers go back to their queue and are redelivered unchanged."""
    bodies = contents(12)
    for _ in range(3):
        clients = [Client.connect(own.address) for _ in range(4)]
        channel = clients[0].channel()
        channel.call("queue.declare", queue="q")
        channel.call("basic.consume", queue="q")
        publish(clients[1], "q", bodies)
        assert [channel.take("basic.deliver").body for _ in bodies] == bodies
        own.wait_replaced("acceptor", own.kill("acceptor"))
        for client in clients:
            client.kill()
        client = own.connect()
        got = client.channel()
        assert [wait_get(got, "q").body for _ in bodies] == bodies
        client.close()
