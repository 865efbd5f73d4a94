"""SIGKILL of each kind of process: the others go on, it is replaced, and its losses are made good."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import psutil
import pytest

from router.model.placement import place
from tests.broker import Broker
from tests.broker.test_fairness import split
from tests.outcomes import Confirms, bodies, wait_depth, wait_get
from tests.producers import Producers
from tests.raw import Channel, Client, Closed, HungUp
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Broker]:
    """A broker whose processes may be killed; at the end it must still stop in order and leave nothing behind."""
    with Broker(tmp_path, acceptors=2, shards=2) as broker:
        yield broker


def works(client: Client) -> bool:
    """Whether the connection works; False if the broker has ended it."""
    try:
        client.channel().call("queue.declare", exclusive=True)
    except (HungUp, OSError):
        return False
    return True


def round_trip(client: Client, queue: str, body: bytes = b"x") -> None:
    """Publish a message, wait for its confirm and get it back."""
    channel = client.channel()
    confirms = Confirms(channel)
    confirms.publish(body, queue)
    confirms.wait()
    assert wait_get(channel, queue).body == body


def test_acceptor(own: Broker) -> None:
    """When an acceptor dies, its connections drop, its unacked messages come back redelivered and its exclusive queues
    go; connections of the other acceptor are not affected.
    """
    clients = [Client.connect(own.address) for _ in range(16)]
    for number, client in enumerate(clients):
        channel = client.channel()
        channel.call("queue.declare", queue=f"own-{number}", exclusive=True)
        channel.call("queue.declare", queue=f"work-{number}")
        channel.publish(b"%d" % number, f"work-{number}")
        channel.call("basic.consume", queue=f"work-{number}")
        channel.take("basic.deliver")
    pid = own.kill("acceptor")
    survivors = {number for number, client in enumerate(clients) if works(client)}
    assert 0 < len(survivors) < len(clients)
    own.wait_replaced("acceptor", pid)
    with Client.connect(own.address) as watcher:
        for number in set(range(16)) - survivors:
            check_orphaned(watcher, number)
        for number in survivors:
            assert watcher.channel().call("queue.declare", queue=f"work-{number}", passive=True).messages == 0
    again = [Client.connect(own.address) for _ in range(16)]
    assert all(map(works, again))
    for client in (*clients, *again):
        client.socket.close()


def check_orphaned(watcher: Client, number: int) -> None:
    """Check that the lost consumer's unacked message is back and its exclusive queue is gone."""
    channel = watcher.channel()
    got = wait_get(channel, f"work-{number}")
    assert (got.body, got.redelivered) == (b"%d" % number, True)

    def gone() -> bool:
        probe = watcher.channel()
        probe.send("queue.declare", queue=f"own-{number}", passive=True)
        return probe.closed().code == 404

    wait_for(gone, what=f"own-{number} deleted")


def test_shard(own: Broker) -> None:
    """When a shard dies, the others keep their messages, its queues work again, no connection is lost and no confirm
    is missing.
    """
    queues = [f"q-{number}" for number in range(24)]
    with Client.connect(own.address) as client:
        channel = client.channel()
        confirms = Confirms(channel)
        for queue in queues:
            channel.call("queue.declare", queue=queue, durable=True)
            confirms.publish(queue.encode(), queue)
        confirms.wait()
        pid = own.kill("shard")
        for number in range(1000):
            confirms.publish(b"%d" % number, queues[number % len(queues)])
        own.wait_replaced("shard", pid)
        confirms.wait()
        assert not confirms.nacked
        kept = 0
        for queue in queues:
            found = bodies(channel, queue)
            if found[0] == queue.encode():
                kept += 1
                del found[0]
            expected = [b"%d" % number for number in range(1000) if queues[number % len(queues)] == queue]
            assert found == expected, f"{queue}: unconfirmed publishes must be sent again, once and in order"
        assert 0 < kept < len(queues)


def test_consumers_of_a_shard_are_attached_again(own: Broker) -> None:
    queues = [f"q-{number}" for number in range(8)]
    with Client.connect(own.address) as client, Client.connect(own.address) as publisher:
        consumer, sender = client.channel(), publisher.channel()
        for queue in queues:
            consumer.call("queue.declare", queue=queue)
            consumer.call("basic.consume", queue=queue, no_ack=True, consumer_tag=queue)
        for index in range(2):
            pid = own.kill("shard", index)
            own.wait_replaced("shard", pid)
        for queue in queues:
            sender.publish(queue.encode(), queue)
        got = {event.consumer_tag: event.body for event in (consumer.take("basic.deliver") for _ in queues)}
        assert got == {queue: queue.encode() for queue in queues}


def test_acks_for_a_lost_shard_are_harmless(own: Broker) -> None:
    """The unacked deliveries were lost with the shard; acknowledging them is not an error of the client."""
    queues = [f"q-{number}" for number in range(8)]
    with Client.connect(own.address) as client:
        channel = client.channel()
        for queue in queues:
            channel.call("queue.declare", queue=queue)
            channel.publish(b"before", queue)
            channel.call("basic.consume", queue=queue)
        tags = [channel.take("basic.deliver").delivery_tag for _ in queues]
        for index in range(2):
            own.wait_replaced("shard", own.kill("shard", index))
        channel.send("basic.ack", delivery_tag=max(tags), multiple=True)
        for queue in queues:
            channel.publish(b"after", queue)
        assert [channel.take("basic.deliver").body for _ in queues] == [b"after"] * len(queues)


def test_router(own: Broker) -> None:
    """While the router is down, messages flow and changes wait; the next one knows durable and transient queues."""
    with Client.connect(own.address) as client, Client.connect(own.address) as other:
        channel = client.channel()
        for queue, options in (("durable", {"durable": True}), ("passing", {}), ("owned", {"exclusive": True})):
            channel.call("queue.declare", queue=queue, **options)
            channel.call("queue.bind", queue=queue, exchange="amq.topic", routing_key=f"{queue}.#")
        pid = own.kill("router")
        for queue in ("durable", "passing", "owned"):
            round_trip(client, queue)
        channel.call("queue.declare", queue="declared while it was away")
        own.wait_replaced("router", pid)
        for queue in ("durable", "passing"):
            assert other.channel().call("queue.declare", queue=queue, passive=True).queue == queue
        for queue in ("durable", "passing", "owned"):
            channel.publish(queue.encode(), f"{queue}.key", "amq.topic", mandatory=True)
            assert wait_get(channel, queue).body == queue.encode()
        round_trip(other, "declared while it was away")
        intruder = other.channel()
        intruder.send("queue.declare", queue="owned", passive=True)
        assert intruder.closed().code == 405


def test_one_after_the_other_under_load(own: Broker) -> None:
    """Acceptor, shard and router are killed under load, twice: with producers and a consumer, all works at the end."""
    with Client.connect(own.address) as client:
        client.channel().call("queue.declare", queue="busy", durable=True, arguments={"qpid.flow_stop_count": 1000})
    # Some at each acceptor: producers of the one that is killed do not come back.
    with Producers(own.address, ["busy"] * 6, clients=split(own, 3, 3)):
        for _ in range(2):
            for role in ("acceptor", "shard", "router"):
                own.wait_replaced(role, own.kill(role))
                served(own)
    with own.connect() as client:
        channel = client.channel()
        channel.call("queue.purge", queue="busy")
        channel.call("queue.declare", queue="after", durable=True)
        round_trip(client, "after")


def served(broker: Broker) -> None:
    """Wait until a new client gets messages from the busy queue; one that connects too early is followed by another."""

    def consumed() -> bool:
        try:
            with broker.connect() as client:
                channel = client.channel()
                channel.call("basic.consume", queue="busy", no_ack=True)
                for _ in range(50):
                    channel.take("basic.deliver")
        except (HungUp, Closed, OSError):
            return False
        return True

    wait_for(consumed, timeout=2 * PATIENCE)


def test_children_end_with_their_supervisor(tmp_path: Path) -> None:
    """Children end with a killed supervisor, and a new node starts on the data that is left."""
    broker = Broker(tmp_path, acceptors=2, shards=2)
    family = broker.processes()
    with Client.connect(broker.address) as client:
        client.channel().call("queue.declare", queue="lasting", durable=True)
    os.kill(broker.process.pid, signal.SIGKILL)
    broker.process.wait()
    _, alive = psutil.wait_procs(family, timeout=PATIENCE)
    assert not alive
    broker.start()
    with broker, Client.connect(broker.address) as client:
        round_trip(client, "lasting")
        wait_depth(client.channel(), "lasting", 0)


def test_messages_in_hand_survive_the_loss_of_a_router_and_an_acceptor(own: Broker) -> None:
    with Client.connect(own.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="q", durable=True)
        confirms = Confirms(channel)
        for number in range(500):
            confirms.publish(b"%d" % number, "q")
        confirms.wait()
    own.wait_replaced("router", own.kill("router"))
    for index in range(2):
        own.wait_replaced("acceptor", own.kill("acceptor", index))
    with own.connect() as client:
        consume_all(client.channel())


def consume_all(channel: Channel) -> None:
    channel.call("basic.consume", queue="q", no_ack=True)
    assert [int(channel.take("basic.deliver").body) for _ in range(500)] == list(range(500))


def named_on(shard: int, begins: str) -> str:
    """Return a queue name whose home is the given one of two shards."""
    return next(name for name in (f"{begins}-{n}" for n in count()) if place("/", name, range(2), {}) == shard)


def is_gone(client: Client, queue: str) -> bool:
    try:
        client.channel().call("queue.declare", queue=queue, passive=True)
    except Closed as closed:
        return closed.code == 404
    return False


def test_a_shard_that_hears_late_of_the_end_of_a_queue_closes_no_other_ones_slot(tmp_path: Path) -> None:
    """A queue is deleted, and the router dies before the queue's shard is informed; then a queue is declared on
    another shard.
    """
    with Broker(tmp_path, acceptors=1, shards=2) as broker, Client.connect(broker.address) as client:
        late = psutil.Process(broker.children("shard")[1])
        with Client.connect(broker.address) as owner:
            queue = named_on(1, "goes")
            owner.channel().call("queue.declare", queue=queue, exclusive=True)
            late.suspend()
        try:
            wait_for(lambda: is_gone(client, queue), what="the end of the queue")
            broker.wait_replaced("router", broker.kill("router"))
            channel, queue = client.channel(), named_on(0, "comes")
            channel.call("queue.declare", queue=queue)
        finally:
            late.resume()
        # When the late shard has this queue it has received all changes.
        channel.call("queue.declare", queue=named_on(1, "last"))
        for number in range(3):
            channel.publish(b"%d" % number, queue)
            assert wait_get(channel, queue).body == b"%d" % number


def test_template(tmp_path: Path) -> None:
    """The first template is forked from the supervisor. One that dies takes nobody along, and the program that replaces
    it forks as well.
    """
    with Broker(tmp_path, program=[str(Path(sys.executable).with_name("penstock"))]) as own:
        supervisor = psutil.Process(own.pid)
        assert supervisor.name() == "pstk-supervisor"
        with Client.connect(own.address) as client:
            client.channel().call("queue.declare", queue="work")
            (first,) = templates(supervisor)
            first.kill()
            wait_for(lambda: (found := templates(supervisor)) and first not in found, what="another template")
            round_trip(client, "work")
            own.wait_replaced("shard", own.kill("shard"))
            round_trip(client, "work")


def templates(supervisor: psutil.Process) -> list[psutil.Process]:
    """Return the running templates of a node: one, or none."""
    found = []
    for child in supervisor.children():
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            if child.name() == "pstk-template" and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
    return found
