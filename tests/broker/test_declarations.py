"""Limits on the size of declarations, with a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker import Broker
from tests.raw import Client, Closed
from tests.router.making import rabbit_hash

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def declare(client: Client, name: str, note: str) -> str:
    """Declare a durable queue; return the reason if it was refused, otherwise ""."""
    channel = client.channel()
    try:
        channel.call("queue.declare", queue=name, durable=True, arguments={"x-note": note})
    except Closed as closed:
        return str(closed)
    return ""


def test_fat_declarations_are_refused_and_hold_nobody(tmp_path: Path) -> None:
    with Broker(tmp_path, "max_topology_bytes=300 KiB", acceptors=2, shards=2) as broker:
        with Client.connect(broker.address) as client:
            assert "120013 bytes of arguments, more than 16384" in declare(client, "fat", "x" * 120_000)
            refused = [declare(client, f"q{number}", "x" * 10_000) for number in range(40)]
            taken = refused.count("")
            assert 0 < taken < 30 and refused[:taken] == [""] * taken
            assert all("user 'guest' take" in reason for reason in refused[taken:])
            assert all("(user_topology_percent)" in reason for reason in refused[taken:])
            channel = client.channel()
            channel.call("confirm.select")
            channel.publish(b"still taken", routing_key="q0")
            assert channel.take("basic.ack")
        broker.call("user_add", name="bob", password_hash=rabbit_hash("secret"), tags=[])
        broker.call("permission_set", user="bob", vhost="/", configure=".*", write=".*", read=".*")
        with Client.connect(broker.address, user="bob", password="secret") as neighbour:
            others = [declare(neighbour, f"bobs{number}", "x" * 10_000) for number in range(40)]
            assert 0 < others.count("") < 40 - taken and "(max_topology_bytes)" in others[-1]
        broker.stop()
        broker.start()
        with Client.connect(broker.address) as client:
            assert len(broker.queues()) == taken + others.count("")
            assert "(max_topology_bytes)" in declare(client, "more", "x" * 15_000)
            assert client.channel().call("queue.delete", queue="bobs0")
            assert client.channel().call("queue.delete", queue="bobs1")
            assert "(user_topology_percent)" in declare(client, "more", "x" * 15_000)
            assert declare(client, "q1", "") == ""
