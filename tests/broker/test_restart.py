"""What is still there after an orderly stop and a new start on the same data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker import Broker
from tests.raw import Channel, Client

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def exists(client: Client, method: str, **name: str) -> bool:
    channel = client.channel()
    channel.send(method, passive=True, **name)
    try:
        channel.take(f"{method}-ok", timeout=10)
    except Exception:
        assert channel.closed().code == 404
        return False
    return True


def declare(channel: Channel) -> None:
    """Durable and transient things, bound to each other."""
    channel.call("exchange.declare", exchange="lasting-x", type="topic", durable=True)
    channel.call("exchange.declare", exchange="passing-x", type="topic")
    channel.call("queue.declare", queue="lasting-q", durable=True, arguments={"x-max-length": 7, "x-overflow": "flow"})
    channel.call("queue.declare", queue="passing-q")
    channel.call("queue.declare", queue="owned-q", exclusive=True)
    channel.call("queue.bind", queue="lasting-q", exchange="lasting-x", routing_key="a.#")
    channel.call("queue.bind", queue="lasting-q", exchange="passing-x", routing_key="#")
    channel.call("exchange.bind", destination="lasting-x", source="amq.fanout")


def test_durable_topology_survives(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    with Client.connect(broker.address) as client:
        declare(client.channel())
    broker.stop()
    broker.start()
    with broker, Client.connect(broker.address) as client:
        found = {name: exists(client, "queue.declare", queue=name) for name in ("lasting-q", "passing-q", "owned-q")}
        assert found == {"lasting-q": True, "passing-q": False, "owned-q": False}
        assert exists(client, "exchange.declare", exchange="lasting-x")
        assert not exists(client, "exchange.declare", exchange="passing-x")
        channel = client.channel()
        arguments = {"x-max-length": 7, "x-overflow": "flow"}
        channel.call("queue.declare", queue="lasting-q", durable=True, arguments=arguments)
        channel.publish(b"routed", "a.b", "amq.fanout", mandatory=True)
        channel.publish(b"not routed", "b", "amq.fanout", mandatory=True)
        assert channel.take("basic.return").body == b"not routed"
        got = channel.get("lasting-q")
        assert got and got.body == b"routed"


def test_deleted_things_stay_deleted(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    with Client.connect(broker.address) as client:
        channel = client.channel()
        declare(channel)
        channel.call("queue.unbind", queue="lasting-q", exchange="lasting-x", routing_key="a.#")
        channel.call("queue.declare", queue="gone", durable=True)
        channel.call("queue.delete", queue="gone")
    broker.stop()
    broker.start()
    with broker, Client.connect(broker.address) as client:
        assert not exists(client, "queue.declare", queue="gone")
        channel = client.channel()
        channel.publish(b"x", "a.b", "lasting-x", mandatory=True)
        assert channel.take("basic.return").body == b"x"


def test_clients_are_told_of_the_stop(tmp_path: Path) -> None:
    """connection.close 320, so that they know that it was not they."""
    broker = Broker(tmp_path)
    client = Client.connect(broker.address)
    client.channel()
    broker.stop()
    event = client.take("connection.close")
    assert (event.code, event.text.partition(" - ")[0]) == (320, "CONNECTION_FORCED")
    client.socket.close()
