"""Marks of queues: producers stop at the stop mark and resume at the resume mark, however the marks are set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.broker import Broker
from tests.broker.flow import MARKS, RESUME, SIZE, STOP, most, settled_depth, wait_held
from tests.broker.ways import each_way, each_way_slowly
from tests.outcomes import Confirms, wait_depth, wait_get
from tests.producers import Drain, Producers
from tests.raw import Address, Channel, Client
from tests.waiting import settled, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("broker")]

KIB = 1024
BY_COUNT: list[tuple[dict[str, Any], int, int]] = [
    ({"x-max-length": 500, "x-overflow": "flow"}, 400, 350),
    ({"qpid.max_count": 500}, 400, 350),
    ({"qpid.flow_stop_count": 300}, 300, 0),
    ({"qpid.max_count": 500, "qpid.flow_stop_count": 300, "qpid.flow_resume_count": 50}, 300, 50),
    ({"x-max-length": 500, "x-overflow": "flow", "x-max-length-bytes": 50_000_000}, 400, 350),
]
BY_BYTES: list[tuple[dict[str, Any], int]] = [
    ({"x-max-length-bytes": 500 * KIB, "x-overflow": "flow"}, 400 * KIB),
    ({"qpid.max_size": 500 * KIB}, 400 * KIB),
    ({"qpid.flow_stop_size": 300 * KIB, "qpid.flow_resume_size": 100 * KIB}, 300 * KIB),
    ({"x-qpid-capacity": 500 * KIB, "x-qpid-flow-resume-capacity": 100 * KIB}, 500 * KIB),
    ({"x-max-length": 1_000_000, "x-overflow": "flow", "x-max-length-bytes": 500 * KIB}, 400 * KIB),
]


@pytest.mark.parametrize(("arguments", "stop", "resume"), BY_COUNT)
def test_messages_stop_producers(
    address: Address, channel: Channel, queue: str, arguments: dict[str, Any], stop: int, resume: int
) -> None:
    channel.call("queue.declare", queue=queue, arguments=arguments)
    with Producers(address, [queue], size=SIZE, count=20_000) as producers:
        depth = wait_held(channel, queue, producers)
        assert resume < depth <= most(stop)
        Drain(channel.client, queue, prefetch=40).take(20_000)
        wait_for(lambda: producers.done)
        assert producers.alive == 1


@pytest.mark.parametrize(("arguments", "stop"), BY_BYTES)
def test_bytes_stop_producers(
    address: Address, channel: Channel, queue: str, arguments: dict[str, Any], stop: int
) -> None:
    channel.call("queue.declare", queue=queue, arguments=arguments)
    with Producers(address, [queue], size=SIZE, count=20_000) as producers:
        depth = wait_held(channel, queue, producers)
        assert stop // 4 < depth * SIZE <= most(stop)
        Drain(channel.client, queue, prefetch=40).take(20_000)
        wait_for(lambda: producers.done)


@pytest.mark.parametrize(
    "arguments",
    [
        {"qpid.flow_stop_count": 100, "qpid.flow_resume_count": 101},
        {"qpid.flow_stop_size": 1000, "qpid.flow_resume_size": 1001},
        {"x-qpid-capacity": 1000, "x-qpid-flow-resume-capacity": 1001},
    ],
)
def test_resume_mark_above_the_stop_mark_is_refused(channel: Channel, queue: str, arguments: dict[str, Any]) -> None:
    channel.send("queue.declare", queue=queue, arguments=arguments)
    refused = channel.closed()
    assert refused.code == 406
    assert "resume" in refused.text
    assert queue in refused.text


@each_way
def test_only_the_resume_mark_resumes(address: Address, channel: Channel, queue: str) -> None:
    """Between the marks nothing changes: held producers stay held, and free ones stay free."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    with Producers(address, [queue], size=SIZE, count=20_000) as producers:
        depth = wait_held(channel, queue, producers)
        while depth > RESUME + 1:
            assert channel.get(queue)
            depth -= 1
        assert settled_depth(channel, queue) == RESUME + 1
        assert channel.get(queue)
        wait_for(lambda: channel.depth(queue) > RESUME + 1)
        assert RESUME < settled_depth(channel, queue) <= most(STOP)


def test_count_and_bytes_must_both_be_below_to_resume(address: Address, channel: Channel, queue: str) -> None:
    """A queue stopped by its messages resumes only when its bytes are low too."""
    whole = SIZE + len(f"..{queue}") + 14 + 64  # body, address, header and the allowance per message
    arguments = MARKS | {"qpid.flow_stop_size": 1000 * whole, "qpid.flow_resume_size": 30 * whole}
    channel.call("queue.declare", queue=queue, arguments=arguments)
    with Producers(address, [queue], size=SIZE, count=20_000) as producers:
        depth = wait_held(channel, queue, producers)
        while depth > 31:
            assert channel.get(queue)
            depth -= 1
        assert settled_depth(channel, queue) == 31
        assert channel.get(queue)
        wait_for(lambda: channel.depth(queue) > 31)


@each_way_slowly
def test_many_stops_and_resumes_lose_nothing(address: Address, channel: Channel, queue: str) -> None:
    """Ten producers over a hundred stops and resumes: all messages arrive in order."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    with Producers(address, [queue] * 10, count=3000) as producers:
        drain = Drain(channel.client, queue, prefetch=20)
        drain.take(30_000)
        assert producers.alive == 10
    assert channel.depth(queue) == 0


def test_what_consumers_hold_unacknowledged_counts(address: Address, channel: Channel, queue: str) -> None:
    """Unacked messages count in the depth, so a consumer that acknowledges nothing does not release the producers."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    channel.call("basic.consume", queue=queue)
    with Producers(address, [queue], size=SIZE, count=20_000) as producers:
        wait_for(lambda: producers.blocked, what="a held producer")

        def delivered() -> int:
            channel.depth(queue)  # answered behind all deliveries until then
            return len(channel.pending())

        held = settled(delivered)
        assert STOP <= held <= most(STOP)
        channel.send("basic.ack", delivery_tag=held - RESUME - 1, multiple=True)
        assert settled(delivered) == held
        channel.send("basic.ack", delivery_tag=held - RESUME, multiple=True)
        wait_for(lambda: len(channel.pending()) > held)
        assert producers.alive == 1


@each_way
def test_confirms_are_withheld(connect: Callable[[], Client], channel: Channel, queue: str) -> None:
    """Confirms are withheld, so a producer that waits for them stops by itself."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    confirms = Confirms(connect().channel())
    for number in range(5 * STOP):
        confirms.publish(b"%d" % number, queue)
    unconfirmed = settled(lambda: len(confirms.gather()))
    assert unconfirmed >= 5 * STOP - most(STOP)
    taken = 0
    while taken < 5 * STOP:
        if channel.get(queue):
            taken += 1
    confirms.wait()
    assert len(confirms.acked) == 5 * STOP


def test_what_is_consumed_of_a_full_queue_is_confirmed(client: Client, channel: Channel, queue: str) -> None:
    """While one consumer keeps the old messages unacked, a message acked by another is confirmed, although the queue
    does not resume.
    """
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    confirms = Confirms(client.channel())
    for number in range(STOP):
        confirms.publish(b"%d" % number, queue)
    confirms.wait()
    holder, acker = client.channel(), client.channel()
    for _ in range(STOP):
        wait_get(holder, queue, no_ack=False)
    confirms.publish(b"late", queue)
    late = wait_get(acker, queue, no_ack=False)
    acker.send("basic.nack", delivery_tag=late.delivery_tag, requeue=True)
    late = wait_get(acker, queue, no_ack=False)
    assert late.body == b"late"
    assert settled(confirms.gather) == {STOP + 1}
    acker.send("basic.ack", delivery_tag=late.delivery_tag)
    confirms.wait()
    assert len(confirms.acked) == STOP + 1


@pytest.mark.parametrize("method", ["queue.delete", "queue.purge"])
def test_queue_that_is_deleted_or_purged_frees_its_producers(
    connect: Callable[[], Client], channel: Channel, queue: str, method: str
) -> None:
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    publisher = connect().channel()
    confirms = Confirms(publisher)
    for number in range(STOP + STOP // 2):
        confirms.publish(b"%d" % number, queue)
    wait_for(lambda: channel.depth(queue) > STOP, what="a full queue")
    assert settled(lambda: len(confirms.gather())) > 0
    channel.call(method, queue=queue)
    confirms.wait()
    assert not confirms.nacked
    publisher.call("queue.declare", exclusive=True)


def test_other_queues_and_connections_are_not_held(
    address: Address, connect: Callable[[], Client], channel: Channel, names: Callable[[str], str]
) -> None:
    full, free = names("full"), names("free")
    channel.call("queue.declare", queue=full, arguments=MARKS)
    channel.call("queue.declare", queue=free)
    with Producers(address, [full], size=SIZE, count=20_000) as producers:
        wait_held(channel, full, producers)
        other = connect().channel()
        for number in range(100):
            other.publish(b"%d" % number, free)
        drain = Drain(channel.client, free)
        for number in range(100):
            assert drain.channel.take("basic.deliver").body == b"%d" % number


def test_channels_of_one_connection_are_held_separately(
    client: Client, channel: Channel, names: Callable[[str], str]
) -> None:
    full, free = names("full"), names("free")
    channel.call("queue.declare", queue=full, arguments=MARKS)
    channel.call("queue.declare", queue=free)
    held, going = client.channel(), client.channel()
    for number in range(2 * STOP):
        held.publish(b"%d" % number, full)
    for number in range(100):
        going.publish(b"%d" % number, free)
        assert wait_get(going, free).body == b"%d" % number


@each_way
def test_order_on_a_held_channel_is_kept(client: Client, channel: Channel, names: Callable[[str], str]) -> None:
    """Head of line: publishes behind the first held one wait, whatever their destination."""
    full, free = names("full"), names("free")
    channel.call("queue.declare", queue=full, arguments=MARKS)
    channel.call("queue.declare", queue=free)
    publisher = client.channel()
    for number in range(2 * STOP):
        publisher.publish(b"%d" % number, full)
    publisher.publish(b"behind", free)
    assert settled_depth(channel, full) <= most(STOP)
    assert channel.get(free) is None
    for number in range(2 * STOP):
        assert wait_get(channel, full).body == b"%d" % number
    assert wait_get(channel, free).body == b"behind"


def test_one_full_queue_of_several_holds_the_publisher(
    channel: Channel, client: Client, names: Callable[[str], str]
) -> None:
    """Only one of three queues has a limit; each receives every message once."""
    limits: dict[str, dict[str, Any]] = {names("a"): {}, names("b"): MARKS, names("c"): {}}
    queues = list(limits)
    for queue, arguments in limits.items():
        channel.call("queue.declare", queue=queue, arguments=arguments)
        channel.call("queue.bind", queue=queue, exchange="amq.direct", routing_key=queues[0])
    publisher = client.channel()
    count = 3 * STOP
    for number in range(count):
        publisher.publish(b"%d" % number, queues[0], "amq.direct")
    for queue in queues:
        assert settled_depth(channel, queue) <= most(STOP)
    drains = [client.channel() for _ in queues]
    for drain, queue in zip(drains, queues, strict=True):
        drain.call("basic.consume", queue=queue, no_ack=True)
    for drain in drains:
        assert [drain.take("basic.deliver").body for _ in range(count)] == [b"%d" % n for n in range(count)]


def test_limits_of_the_node(tmp_path: Path) -> None:
    """A queue without a limit gets the node's; a queue with another overflow keeps it."""
    with (
        Broker(tmp_path, "flow.max_count=100", "flow.stop_percent=50", "flow.resume_percent=20") as broker,
        Client.connect(broker.address) as client,
    ):
        channel = client.channel()
        channel.call("queue.declare", queue="node", durable=True)
        with Producers(broker.address, ["node"], size=SIZE, count=20_000) as producers:
            assert 20 < wait_held(channel, "node", producers) <= most(50)
        channel.call("queue.declare", queue="ring", durable=True, arguments={"x-max-length": 70})
        with Producers(broker.address, ["ring"], count=1000) as producers:
            wait_for(lambda: producers.done)
            wait_depth(channel, "ring", 70)
            assert settled_depth(channel, "ring") == 70


def test_dead_letters_wait_for_room(
    address: Address, connect: Callable[..., Client], channel: Channel, names: Callable[[str], str]
) -> None:
    """Producers of the queue with the expired messages are held in the end; all dead letters arrive, in order."""
    work, dead, count = names("work"), names("dead"), 5000
    channel.call("queue.declare", queue=dead, durable=True, arguments=MARKS)
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, "x-message-ttl": 1}
    channel.call("queue.declare", queue=work, durable=True, arguments={**MARKS, **dead_letters})
    with Producers(address, [work], size=SIZE, count=count, persistent=True):
        wait_for(lambda: channel.depth(dead) >= STOP, what="the queue of dead letters to be full")
        assert settled_depth(channel, dead) <= most(STOP)
        assert channel.depth(work) + channel.depth(dead) < count
        Drain(connect(), dead).take(count)
    channel.call("queue.delete", queue=work)
    channel.call("queue.delete", queue=dead)
