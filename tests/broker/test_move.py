"""Moves of queues from shard to shard while they are in use."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker import Broker
from tests.outcomes import Confirms, bodies, wait_depth
from tests.raw import Channel, Client
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

PERSISTENT = 2


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("moves"), acceptors=2, shards=2) as broker:
        yield broker


@pytest.fixture
def channel(own: Broker) -> Iterator[Channel]:
    with Client.connect(own.address) as client:
        yield client.channel()


def home(broker: Broker, queue: str) -> int:
    (found,) = [each for each in broker.call("placement", vhost="/")["queues"] if each["name"] == queue]
    shard: int = found["shard"]
    return shard


def move(broker: Broker, queue: str, shard: int | None = None, **more: Any) -> dict[str, Any]:
    """Move a queue, to the other shard if none is given; return the result."""
    shard = 1 - home(broker, queue) if shard is None else shard
    arguments = {"vhost": "/", "name": queue, "shard": shard, "placement_version": None, "plan": None, **more}
    result: dict[str, Any] = broker.call("queue_move", **arguments)
    return result


def moved(broker: Broker, queue: str) -> dict[str, Any]:
    result = move(broker, queue)
    assert result["result"] == "moved", result
    return result


def test_empty(own: Broker, channel: Channel) -> None:
    channel.call("queue.declare", queue="empty")
    before = home(own, "empty")
    result = moved(own, "empty")
    assert (result["messages"], result["bytes"]) == (0, 0)
    assert home(own, "empty") == 1 - before
    assert move(own, "empty", 1 - before)["result"] == "already-there"
    channel.publish(b"one", "empty")
    wait_depth(channel, "empty", 1)
    assert moved(own, "empty")["messages"] == 1
    assert bodies(channel, "empty") == [b"one"]
    channel.call("queue.delete", queue="empty")


@pytest.mark.parametrize("durable", [True, False])
def test_contents_keep_their_order(own: Broker, channel: Channel, durable: bool) -> None:
    """Persistent and transient messages of all sizes keep their order over several moves."""
    queue = f"contents-{durable}"
    channel.call("queue.declare", queue=queue, durable=durable)
    confirms = Confirms(channel)
    sent = [b"%d." % number + bytes(number * number % 70000) for number in range(500)]
    for number, body in enumerate(sent):
        confirms.publish(body, queue, delivery_mode=1 + number % 2)
    confirms.wait()
    for _ in range(3):
        assert moved(own, queue)["messages"] == len(sent)
    assert bodies(channel, queue) == sent
    channel.call("queue.delete", queue=queue)


def test_what_is_in_hand_is_settled_at_the_new_home(own: Broker, channel: Channel) -> None:
    """Acks, requeues and rejects of messages delivered by the old home, to consumers and gets, reach the new one."""
    channel.call("queue.declare", queue="hands", durable=True)
    confirms = Confirms(channel)
    for number in range(20):
        confirms.publish(b"%d" % number, "hands", delivery_mode=PERSISTENT)
    confirms.wait()
    with Client.connect(own.address) as other:
        reader = other.channel()
        got = channel.get("hands", no_ack=False)
        assert got and got.body == b"0"
        reader.call("basic.qos", prefetch_count=5)
        reader.call("basic.consume", queue="hands")
        events = [reader.take("basic.deliver") for _ in range(5)]
        assert [event.body for event in events] == [b"%d" % number for number in range(1, 6)]
        reader.send("basic.ack", delivery_tag=events[0].delivery_tag)
        assert reader.take("basic.deliver").body == b"6"
        assert moved(own, "hands")["messages"] == 19
        reader.send("basic.ack", delivery_tag=events[1].delivery_tag)
        assert reader.take("basic.deliver").body == b"7"
        reader.send("basic.nack", delivery_tag=events[2].delivery_tag, requeue=True)
        again = reader.take("basic.deliver")
        assert (again.body, again.redelivered) == (b"3", True)
        reader.send("basic.nack", delivery_tag=events[3].delivery_tag, requeue=False)
        assert reader.take("basic.deliver").body == b"8"
    channel.send("basic.nack", delivery_tag=got.delivery_tag, requeue=True)
    wait_depth(channel, "hands", 17)
    assert moved(own, "hands")["messages"] == 17
    left = [0, 3, *range(5, 20)]
    events = [event for _ in left if (event := channel.get("hands"))]
    assert [int(event.body) for event in events] == left
    assert [int(event.body) for event in events if event.redelivered] == [0, 3, 5, 6, 7, 8]
    channel.call("queue.delete", queue="hands")


class Mover:
    """Moves a queue back and forth during the `with` block."""

    def __init__(self, broker: Broker, queue: str) -> None:
        self.broker = broker
        self.queue = queue
        self.results: list[dict[str, Any]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Mover:
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._end.is_set():
            self.results.append(move(self.broker, self.queue))

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(2 * PATIENCE)


@pytest.mark.parametrize(
    "arguments",
    [{}, pytest.param({"x-max-priority": 3}, marks=pytest.mark.slow), {"qpid.flow_stop_count": 60}],
)
def test_no_gap_no_repeat_no_reorder(own: Broker, arguments: dict[str, Any]) -> None:
    """Publishers with confirms and a consumer that acks go on while their queue moves back and forth."""
    queue = f"busy-{'-'.join(arguments)}"
    with Client.connect(own.address) as one, Client.connect(own.address) as two, Client.connect(own.address) as three:
        publisher, rest, consumer = one.channel(), two.channel(), three.channel()
        publisher.call("queue.declare", queue=queue, durable=True, arguments=arguments)
        confirms, others = Confirms(publisher), Confirms(rest)
        consumer.call("basic.qos", prefetch_count=20)
        consumer.call("basic.consume", queue=queue)
        seen: dict[bytes, list[int]] = {b"a": [], b"b": []}
        repeated = 0
        with Mover(own, queue) as mover:
            count = 0
            while count < 1500 or len(mover.results) <= 3:
                number, count = count, count + 1
                confirms.publish(b"a%d" % number, queue, delivery_mode=1 + number % 2)
                others.publish(b"b%d" % number, queue, delivery_mode=1 + number % 2)
                for _ in range(2):
                    event = consumer.take("basic.deliver")
                    seen[event.body[:1]].append(int(event.body[1:]))
                    repeated += event.redelivered
                    consumer.send("basic.ack", delivery_tag=event.delivery_tag)
        assert {result["result"] for result in mover.results} == {"moved"}, mover.results
        confirms.wait()
        others.wait()
        assert not confirms.nacked and not others.nacked
        assert seen == {b"a": list(range(count)), b"b": list(range(count))}
        assert not repeated
        assert publisher.call("queue.delete", queue=queue).messages == 0


def test_more_than_memory_has_room_for(tmp_path: Path) -> None:
    """Contents that are only on disk move from disk to disk."""
    with Broker(tmp_path, "memory_limit=4MB", shards=2) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="large", durable=True)
        confirms = Confirms(channel)
        for number in range(600):
            confirms.publish(b"%d." % number + bytes(20_000), "large", delivery_mode=PERSISTENT)
        confirms.wait()
        assert moved(broker, "large")["messages"] == 600
        assert [int(body.partition(b".")[0]) for body in bodies(channel, "large")] == list(range(600))


def test_a_move_that_hangs_is_seen_and_taken_back(tmp_path: Path) -> None:
    """A shard that hangs does not say that no dead letters follow. Producers are held during the move with the reason
    shown; after an abort, all goes on at the old home.
    """
    with Broker(tmp_path, acceptors=2, shards=3) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="hanging", durable=True)
        confirms = Confirms(channel)
        source = home(broker, "hanging")
        target, hanging = (shard for shard in range(3) if shard != source)
        results: list[dict[str, Any]] = []
        thread = threading.Thread(target=lambda: results.append(move(broker, "hanging", target)))
        pid = broker.children("shard")[hanging]
        os.kill(pid, signal.SIGSTOP)
        try:
            thread.start()
            wait_for(lambda: is_stopped(broker), what="it is stopped")
            confirms.publish(b"waits", "hanging", delivery_mode=PERSISTENT)
            (held,) = wait_for(broker.held, what="somebody is held")
            (cause,) = held["causes"]
            assert (cause["kind"], cause["name"], cause["target"]) == ("rebalance", "hanging", target)
            assert "rebalance" in broker.penstock("flow").stdout
            assert client.take("connection.blocked").reason.endswith(cause["text"][-20:])
            assert confirms.gather() == {1}
            assert broker.call("queue_move_abort", vhost="/", name="hanging") is True
            thread.join(PATIENCE)
            (result,) = results
            assert (result["result"], result["reason"]) == ("rolled-back", "aborted")
            confirms.wait()
        finally:
            os.kill(pid, signal.SIGCONT)
        assert home(broker, "hanging") == source
        assert bodies(channel, "hanging") == [b"waits"]
        assert client.take("connection.unblocked")
        assert move(broker, "hanging", target)["result"] == "moved"


def is_stopped(broker: Broker) -> bool:
    """Whether a queue is stopped for its move."""
    return any(each["phase"] == "stopping" for each in broker.call("placement", vhost=None)["moves"])


def test_a_home_that_hangs_before_the_queue_is_stopped_holds_nobody(tmp_path: Path) -> None:
    with Broker(tmp_path, acceptors=2, shards=2) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="open", durable=True)
        confirms = Confirms(channel)
        target = 1 - home(broker, "open")
        results: list[dict[str, Any]] = []
        thread = threading.Thread(target=lambda: results.append(move(broker, "open", target)))
        pid = broker.children("shard")[target]
        os.kill(pid, signal.SIGSTOP)
        try:
            thread.start()
            wait_for(lambda: broker.call("placement", vhost=None)["moves"], what="it moves")
            confirms.publish(b"goes on", "open", delivery_mode=PERSISTENT)
            confirms.wait()
            assert not broker.held()
            assert broker.call("queue_move_abort", vhost="/", name="open") is True
            thread.join(PATIENCE)
            (result,) = results
            assert (result["result"], result["pause_ms"]) == ("rolled-back", None)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert home(broker, "open") == 1 - target
        assert bodies(channel, "open") == [b"goes on"]


def test_refused(own: Broker, channel: Channel) -> None:
    channel.call("queue.declare", queue="mine", exclusive=True)
    for name, shard, placement, result in (
        ("mine", 1 - home(own, "mine"), None, "refused"),
        ("none", 0, None, "no-queue"),
        ("mine", 7, None, "no-shard"),
        ("mine", 0, -1, "stale"),
    ):
        found = move(own, name, shard, placement_version=placement)
        assert (found["result"], found["pause_ms"]) == (result, None)
        assert found["reason"]


def test_command(own: Broker, channel: Channel) -> None:
    channel.call("queue.declare", queue="by command")
    shard = 1 - home(own, "by command")
    done = own.penstock("queue", "move", "/", "by command", str(shard))
    assert done.returncode == 0, done.stderr
    assert f"lives on shard {shard} now: 0 messages, 0 bytes, held for " in done.stdout
    assert "lives on shard" in own.penstock("queue", "move", "/", "by command", str(shard)).stdout
    refused = own.penstock("queue", "move", "/", "none", "0")
    assert (refused.returncode, "no-queue" in refused.stderr) == (2, True)
    assert "by command" in own.penstock("queue", "list").stdout
    assert "no move" in own.penstock("queue", "abort", "/", "by command").stdout
    channel.call("queue.delete", queue="by command")


@pytest.mark.parametrize("attached", [True, False])
def test_a_lease_moves_with_its_queue(own: Broker, channel: Channel, attached: bool) -> None:
    queue = f"leased-{attached}"
    channel.call("queue.declare", queue=queue, durable=True)
    confirms = Confirms(channel.client.channel())
    for number in range(10):
        confirms.publish(b"%d" % number, queue, delivery_mode=PERSISTENT)
    confirms.wait()
    channel.call("basic.qos", prefetch_count=4)
    channel.call("basic.consume", queue=queue, consumer_tag="c", arguments={"x-lease": "l"})
    assert [channel.take("basic.deliver").body for _ in range(4)] == [b"0", b"1", b"2", b"3"]
    if not attached:
        channel.call("basic.cancel", consumer_tag="c")
    assert moved(own, queue)["messages"] == 10
    if attached:
        channel.call("basic.cancel", consumer_tag="c")
    again = channel.client.channel()
    again.call("basic.consume", queue=queue, consumer_tag="c", arguments={"x-lease": "l"})
    assert [again.take("basic.deliver").body for _ in range(4)] == [b"0", b"1", b"2", b"3"]
    again.send("basic.ack", delivery_tag=0, multiple=True)
    again.call("basic.cancel", consumer_tag="c")
    assert moved(own, queue)["messages"] == 6
    assert bodies(channel, queue) == [b"%d" % number for number in range(4, 10)]
    channel.call("queue.delete", queue=queue)
