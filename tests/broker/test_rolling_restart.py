"""`penstock restart acceptors`: every acceptor is replaced, and one always listens."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.outcomes import Confirms, wait_depth
from tests.raw import Client, Closed, HungUp
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


class Visitor:
    """A client that connects and leaves continually; it counts its visits and keeps the refusals."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.visits = 0
        self.refused: list[OSError] = []
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                Client.connect(self.broker.address).socket.close()
                self.visits += 1
            except (HungUp, Closed, ConnectionResetError, BrokenPipeError):
                continue  # the acceptor was about to end
            except OSError as error:
                self.refused.append(error)

    def stop(self) -> None:
        self.stopped.set()
        self.thread.join()


def test_acceptors_are_replaced_while_clients_come_and_go(tmp_path: Path) -> None:
    with Broker(tmp_path, acceptors=2) as broker:
        clients = [Client.connect(broker.address) for _ in range(8)]
        before = broker.children("acceptor")
        channels = [client.channel() for client in clients]
        channels[0].call("queue.declare", queue="q", durable=True)
        confirms = [Confirms(channel) for channel in channels]
        for number in range(50):
            for confirm in confirms:
                confirm.publish(b"%d" % number, "q", delivery_mode=2)
        for channel in channels:
            channel.call("queue.declare", queue="q", passive=True)  # answered behind all publishes of the channel
        visitor = Visitor(broker)
        done = broker.penstock("restart", "acceptors")
        visitor.stop()
        assert (done.returncode, done.stdout) == (0, "acceptor 0 replaced\nacceptor 1 replaced\n"), done.stderr
        for client, confirm in zip(clients, confirms, strict=True):
            ended = client.ended()
            assert isinstance(ended, Closed)
            assert (ended.code, ended.text.partition(" - ")[0]) == (320, "CONNECTION_FORCED")
            reported = [(event.name, event.delivery_tag) for event in client.line(confirm.channel.number)]
            assert reported[-1] == ("basic.ack", 50)
            client.socket.close()
        after = broker.children("acceptor")
        assert len(after) == 2 and not set(before) & set(after)
        assert not visitor.refused and visitor.visits
        with Client.connect(broker.address) as client:
            wait_depth(client.channel(), "q", 400)


def test_exclusive_queues_go_with_their_connections_and_deliveries_come_back(tmp_path: Path) -> None:
    with Broker(tmp_path, acceptors=1) as broker:
        client = Client.connect(broker.address)
        channel = client.channel()
        channel.call("queue.declare", queue="own", exclusive=True)
        channel.call("queue.declare", queue="q", durable=True)
        channel.publish(b"in hand", "q")
        channel.call("basic.consume", queue="q")
        channel.take("basic.deliver")
        assert broker.penstock("restart", "acceptors").returncode == 0
        client.socket.close()
        with Client.connect(broker.address) as other:
            got = wait_for(lambda: other.channel().get("q"), what="what was in hand")
            assert (got.body, got.redelivered) == (b"in hand", True)
            wait_for(lambda: missing(other, "own"), what="the exclusive queue to be gone")


def missing(client: Client, queue: str) -> bool:
    """Whether the queue is missing; while it exists it belongs to another connection."""
    channel = client.channel()
    channel.send("queue.declare", queue=queue, passive=True)
    refused = channel.closed()
    assert refused.code in (404, 405)
    return refused.code == 404


def test_without_a_node(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.stop()
    done = broker.penstock("restart", "acceptors")
    assert (done.returncode, done.stderr) == (2, f"penstock: no node runs on {tmp_path / 'data'}\n")
