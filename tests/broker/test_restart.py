"""Survival of topology and messages over an orderly stop and a new start on the same data."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.outcomes import Confirms, bodies
from tests.raw import Channel, Client, Closed, HungUp
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def exists(client: Client, method: str, **name: str) -> bool:
    channel = client.channel()
    channel.send(method, passive=True, **name)
    try:
        channel.take(f"{method}-ok")
    except Closed as missing:
        if missing.code != 404:
            raise
        return False
    return True


def declare(channel: Channel) -> None:
    """Declare durable and transient exchanges and queues, bound to each other."""
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
    """Clients get connection.close 320, which shows that they did not cause it."""
    broker = Broker(tmp_path)
    client = Client.connect(broker.address)
    client.channel()
    broker.stop()
    event = client.take("connection.close")
    assert (event.code, event.text.partition(" - ")[0]) == (320, "CONNECTION_FORCED")
    client.socket.close()


def left(channel: Channel, queue: str) -> list[tuple[int, bool]]:
    """Get all messages of a queue; return their numbers and redelivered flags."""
    found = []
    while event := channel.get(queue):
        found.append((int(event.body), event.redelivered))
    return found


def test_persistent_messages_survive(tmp_path: Path) -> None:
    """Persistent messages survive on durable queues, in order; only those that were unacked or requeued come back
    redelivered.
    """
    broker = Broker(tmp_path, shards=2)
    with Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="lasting", durable=True)
        channel.call("queue.declare", queue="lasting-too", durable=True)
        channel.call("queue.declare", queue="passing")
        for queue in ("lasting", "lasting-too", "passing"):
            channel.call("queue.bind", queue=queue, exchange="amq.fanout")
        confirms = Confirms(channel)
        for number in range(100):
            confirms.publish(b"%d" % number, exchange="amq.fanout", delivery_mode=2 if number % 3 else 1)
        confirms.wait()
        for settled in range(10):
            event = channel.get("lasting", no_ack=False)
            assert event and int(event.body) == settled
            channel.send("basic.ack", delivery_tag=event.delivery_tag)
        requeued = [channel.get("lasting", no_ack=False) for _ in range(10)]
        assert requeued[-1]
        channel.send("basic.nack", delivery_tag=requeued[-1].delivery_tag, multiple=True, requeue=True)
        channel.call("queue.purge", queue="passing")
        for number in range(5):  # the last two stay unacked
            event = channel.get("lasting-too", no_ack=False)
            assert event
            if number < 3:
                channel.send("basic.ack", delivery_tag=event.delivery_tag)
        channel.call("queue.declare", queue="lasting", passive=True)
        broker.stop()
    broker.start()
    with broker, Client.connect(broker.address) as client:
        channel = client.channel()
        assert not exists(client, "queue.declare", queue="passing")
        assert left(channel, "lasting") == [(number, number < 20) for number in range(10, 100) if number % 3]
        assert left(channel, "lasting-too") == [(number, number < 5) for number in range(3, 100) if number % 3]


def test_what_was_confirmed_before_the_stop_is_there(tmp_path: Path) -> None:
    """A producer publishes at full speed while the node stops: it stops in time and keeps all that it has confirmed."""
    broker = Broker(tmp_path, shards=2)
    client = Client.connect(broker.address)
    channel = client.channel()
    channel.call("queue.declare", queue="q", durable=True)
    confirms = Confirms(channel)
    going = threading.Event()

    def publish() -> None:
        try:
            while True:
                for _ in range(20):
                    confirms.publish(b"%d" % confirms.published, "q", delivery_mode=2)
                if len(confirms.gather()) > 200:
                    confirms.wait()
                if confirms.acked:
                    going.set()
        except (HungUp, Closed, OSError):
            going.set()

    producer = threading.Thread(target=publish)
    producer.start()
    assert going.wait(PATIENCE)
    broker.stop()
    producer.join(PATIENCE)
    client.socket.close()
    assert confirms.acked
    broker.start()
    with broker, Client.connect(broker.address) as client:
        there = left(client.channel(), "q")
    assert [number for number, _ in there] == sorted({number for number, _ in there})
    assert {number - 1 for number in confirms.acked} <= {number for number, _ in there}
    assert not any(redelivered for _, redelivered in there)


def test_fewer_shards_than_there_are_messages_on(tmp_path: Path) -> None:
    """The node names the number of shards that it needs and loses nothing; without messages any number will do."""
    broker = Broker(tmp_path, shards=3)
    queues = [f"q-{number}" for number in range(12)]
    with Client.connect(broker.address) as client:
        channel = client.channel()
        confirms = Confirms(channel)
        for queue in queues:
            channel.call("queue.declare", queue=queue, durable=True)
            confirms.publish(queue.encode(), queue, delivery_mode=2)
        confirms.wait()
    broker.stop()
    several = broker.command
    broker.command = [*several, "--shards", "1"]
    refused = subprocess.run(broker.command, capture_output=True, text=True, check=False)
    text = f"{tmp_path}/data has messages of 3 shards, the node would have 1: start it with --shards 3"
    assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", f"penstock: {text}\n")
    broker.command = several
    broker.start()
    with Client.connect(broker.address) as client:
        channel = client.channel()
        for queue in queues:
            event = channel.get(queue)
            assert event and event.body == queue.encode()
    broker.stop()
    broker.command = [*several, "--shards", "1"]
    broker.start()
    with broker, Client.connect(broker.address) as client:
        channel = client.channel()
        for queue in queues:
            channel.publish(b"again", queue)
            event = channel.get(queue)
            assert event and event.body == b"again"


def test_a_stop_under_load_loses_nothing_and_gives_nothing_twice(tmp_path: Path) -> None:
    """After the stop, unacked messages are there and acked ones are not; all publishes were confirmed before it."""
    broker = Broker(tmp_path, acceptors=2, shards=2)
    queues = [f"q-{number}" for number in range(4)]
    sender, taker = Client.connect(broker.address), Client.connect(broker.address)
    out, into = sender.channel(), taker.channel()
    for queue in queues:
        out.call("queue.declare", queue=queue, durable=True)
        into.call("basic.consume", queue=queue)
    out.call("confirm.select")
    for number in range(2000):
        out.publish(b"%d" % number, queues[number % 4], delivery_mode=2)
    out.call("queue.declare", queue=queues[0], passive=True)  # behind all of them
    taken = [into.take("basic.deliver") for _ in range(1000)]
    into.send("basic.ack", delivery_tag=taken[-1].delivery_tag, multiple=True)
    into.call("basic.qos", prefetch_count=1)
    broker.stop()
    for client in sender, taker:
        ended = client.ended()
        assert isinstance(ended, Closed) and ended.code == 320
        client.socket.close()
    reported: set[int] = set()
    for event in (event for event in sender.line(out.number) if event.name == "basic.ack"):
        reported |= set(range(1, event.delivery_tag + 1)) if event.multiple else {event.delivery_tag}
    assert reported == set(range(1, 2001))
    broker.start()
    with broker, Client.connect(broker.address) as client:
        channel = client.channel()
        left = sorted(int(body) for queue in queues for body in bodies(channel, queue))
        assert left == sorted(set(range(2000)) - {int(event.body) for event in taken})
