"""Situations that call for flow control, with real clients. docs/flow-control.md lists the tests of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker import Broker
from tests.broker.flow import most
from tests.clients.held import Held
from tests.clients.hold import LIBRARIES
from tests.conftest import Names
from tests.outcomes import wait_get
from tests.producers import Drain, Ledger
from tests.raw import Client
from tests.waiting import settled, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("broker")]

PATIENCE = 60.0
STOP = 100
MARKS: dict[str, Any] = {"qpid.flow_stop_count": STOP, "qpid.flow_resume_count": STOP // 2}
FOUR = [*sorted(LIBRARIES), "amqplib"]


@pytest.fixture
def start(broker: Broker, tmp_path: Path) -> Iterator[Callable[..., Held]]:
    """A function that starts a producer process of a library; processes still running are killed at the end."""
    started: list[Held] = []

    def start(library: str, queue: str, count: int, size: int = 8192, **more: Any) -> Held:
        started.append(Held(library, broker.address, queue, tmp_path, count, size, **more))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()


@pytest.fixture
def deep(broker: Broker) -> Callable[[str], int]:
    """A function that returns the depth of a queue, ready and unacked."""
    return lambda queue: sum(each.ready + each.unacked for each in broker.queues() if each.name == queue)


def holds(broker: Broker, queue: str) -> bool:
    """Whether a channel is held by a queue."""
    return any(waits_for(held, queue) for held in broker.held())


def waits_for(held: dict[str, Any], queue: str) -> bool:
    return any(cause.get("name") == queue for cause in held["causes"])


@pytest.mark.parametrize("library", FOUR)
def test_consumer_lags_ten_to_one(
    start: Callable[..., Held], client: Client, queue: str, deep: Callable[[str], int], library: str
) -> None:
    """The producer is held repeatedly and survives, the queue stays at its marks, and everything arrives in order."""
    client.channel().call("queue.declare", queue=queue, arguments=MARKS)
    producer = start(library, queue, 10 * STOP)
    wait_for(lambda: deep(queue) >= STOP, PATIENCE, "a full queue")
    drain = Drain(client, queue, prefetch=10)
    for _ in range(10):
        drain.take(STOP)
        assert deep(queue) <= most(STOP) + 10
    producer.check_alive()


@pytest.mark.parametrize("library", FOUR)
def test_publish_subscribe_with_one_dead_subscriber(
    start: Callable[..., Held], client: Client, names: Names, library: str
) -> None:
    """A dead subscriber stops neither the publisher nor the other, and gets everything once it consumes."""
    exchange, count = names("ticks"), 20 * STOP
    channel = client.channel()
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    queues = [channel.call("queue.declare", exclusive=True, arguments=MARKS).queue for _ in range(2)]
    for each in queues:
        channel.call("queue.bind", queue=each, exchange=exchange)
    publisher = start(library, "", count, 64, exchange=exchange, confirms=True)
    Drain(client, queues[0]).take(count)
    publisher.check_alive()
    Drain(client, queues[1]).take(count)


@pytest.mark.parametrize("library", FOUR)
def test_consumer_stuck_on_large_messages(
    start: Callable[..., Held], client: Client, queue: str, deep: Callable[[str], int], library: str
) -> None:
    """The consumer's unacked messages count by their bytes, so the producer waits, however few they are."""
    size, count = 1 << 20, 24
    channel = client.channel()
    channel.call("queue.declare", queue=queue, arguments={"x-flow-stop-size": 8 * size, "x-flow-resume-size": 4 * size})
    producer = start(library, queue, count, size)
    first = wait_get(channel, queue, no_ack=False)
    wait_for(lambda: deep(queue) >= 8, PATIENCE, "a full queue")
    assert settled(lambda: deep(queue)) <= 10
    producer.check_held()
    channel.send("basic.ack", delivery_tag=first.delivery_tag)
    ledger = Ledger()
    ledger.note(first.body)
    Drain(client, queue, prefetch=2, ledger=ledger).take(count - 1)
    producer.check_alive()


@pytest.mark.parametrize("library", FOUR)
def test_bursty_producer(
    start: Callable[..., Held], client: Client, queue: str, deep: Callable[[str], int], library: str
) -> None:
    """Each burst is larger than the queue, which is emptied between bursts."""
    client.channel().call("queue.declare", queue=queue, arguments=MARKS)
    drain = Drain(client, queue, prefetch=20)
    for burst in range(3):
        producer = start(library, queue, 5 * STOP, 64, first=burst)
        drain.take(5 * STOP, PATIENCE)
        producer.check_alive()
        wait_for(lambda: deep(queue) == 0)


@pytest.mark.parametrize("library", FOUR)
def test_one_channel_that_feeds_a_full_and_a_free_queue(
    broker: Broker, start: Callable[..., Held], client: Client, names: Names, deep: Callable[[str], int], library: str
) -> None:
    """The channel waits as a whole and keeps its order; other channels that publish to the free queue do not wait."""
    full, free = names("full"), names("free")
    channel = client.channel()
    channel.call("queue.declare", queue=full, arguments=MARKS)
    channel.call("queue.declare", queue=free)
    count = 3 * STOP
    producer = start(library, full, count, 64, also=free)
    wait_for(lambda: holds(broker, full), PATIENCE, "a held channel")
    wait_for(lambda: deep(free) >= STOP, PATIENCE, "what came before the first that waits")
    assert settled(lambda: deep(free)) < count
    start("pika", free, 5, 64, confirms=True, first=1).check_alive()
    producer.check_held()
    Drain(client, full, prefetch=20).take(count)
    producer.check_alive()
    drain = Drain(client, free, prefetch=20)
    drain.take(count + 5)
    assert drain.ledger.next == {0: count, 1: 5}


@pytest.mark.parametrize("library", sorted(LIBRARIES))  # amqplib has no transactions
def test_tx_on_a_full_queue(
    broker: Broker, start: Callable[..., Held], client: Client, queue: str, library: str
) -> None:
    """A commit waits until there is room for the whole transaction."""
    client.channel().call("queue.declare", queue=queue, arguments=MARKS)
    start("pika", queue, STOP, 64, confirms=True).check_alive()
    producer = start(library, queue, 20, 64, tx=True, first=1)
    wait_for(lambda: holds(broker, queue), PATIENCE, "a commit that waits")
    producer.check_held()
    drain = Drain(client, queue, prefetch=20)
    drain.take(STOP + 20)
    assert drain.ledger.next == {0: STOP, 1: 20}
    producer.check_alive()


@pytest.mark.parametrize("library", FOUR)
def test_a_message_to_several_queues_of_which_one_is_full(
    broker: Broker, start: Callable[..., Held], client: Client, names: Names, deep: Callable[[str], int], library: str
) -> None:
    """The message and its confirm wait for the full queue; no queue gets the message twice."""
    exchange, queues = names("all"), [names(f"q{number}") for number in range(3)]
    channel = client.channel()
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    for each in queues:
        # Essential, so that it does not lag because the others keep up.
        essential = {**MARKS, "x-essential": True} if each == queues[0] else {}
        channel.call("queue.declare", queue=each, arguments=essential)
        channel.call("queue.bind", queue=each, exchange=exchange)
    start("pika", queues[0], STOP, 64, confirms=True).check_alive()
    producer = start(library, "", 50, 64, exchange=exchange, confirms=True, first=1)
    wait_for(lambda: holds(broker, queues[0]), PATIENCE, "a held channel")
    assert settled(lambda: deep(queues[1])) < 50
    producer.check_held()
    for each, expected in zip(queues, ({0: STOP, 1: 50}, {1: 50}, {1: 50}), strict=True):
        drain = Drain(client, each, prefetch=20)
        drain.take(sum(expected.values()))
        assert drain.ledger.next == expected
    producer.check_alive()


@pytest.mark.parametrize("library", FOUR)
def test_a_limit_that_is_raised_while_it_holds(
    broker: Broker, start: Callable[..., Held], client: Client, queue: str, deep: Callable[[str], int], library: str
) -> None:
    client.channel().call("queue.declare", queue=queue, durable=True)
    words = ("policy", "set", queue, f"^{queue}$")
    for limit in (STOP, 100 * STOP):
        done = broker.penstock(*words, f'{{"flow-stop-count": {limit}}}', "--apply-to", "queues", "--priority", "9")
        assert done.returncode == 0, done.stderr
        if limit == STOP:
            producer = start(library, queue, 10 * STOP)
            wait_for(lambda: deep(queue) >= STOP, PATIENCE)
            assert settled(lambda: deep(queue)) < 10 * STOP
    wait_for(lambda: deep(queue) == 10 * STOP, PATIENCE, "all of it")
    producer.check_alive()
    assert broker.penstock("policy", "delete", queue).returncode == 0


@pytest.mark.parametrize("library", FOUR)
def test_channel_flow_is_for_those_whom_it_does_not_break(
    broker: Broker, start: Callable[..., Held], client: Client, queue: str, deep: Callable[[str], int], library: str
) -> None:
    """With channel.flow chosen: none of the four libraries stops for it, and two would lose channel or connection."""
    client.channel().call("queue.declare", queue=queue, arguments={**MARKS, "x-throttle": "flow, park, pause"})
    producer = start(library, queue, 5 * STOP, 64)  # too little to pause the socket, which would stop notices
    wait_for(lambda: holds(broker, queue), PATIENCE, "a held channel")
    assert settled(lambda: deep(queue)) <= most(STOP)
    expected = ["flow"] if library in ("pika", "py-amqp") else []

    def notices() -> bool:
        return [held["notified_by"] for held in broker.held() if waits_for(held, queue)] == [expected]

    wait_for(notices, PATIENCE, str(expected))
    producer.check_held()
    Drain(client, queue, prefetch=10).take(5 * STOP)
    producer.check_alive()


@pytest.mark.parametrize("library", FOUR)
def test_a_queue_that_is_deleted_while_it_holds(
    start: Callable[..., Held], client: Client, queue: str, deep: Callable[[str], int], library: str
) -> None:
    """The producer of a deleted queue goes on; its messages have no queue any more."""
    channel = client.channel()
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    producer = start(library, queue, 10 * STOP)
    wait_for(lambda: deep(queue) >= STOP, PATIENCE, "a full queue")
    producer.check_held()
    channel.call("queue.delete", queue=queue)
    producer.check_alive()


def test_a_consumer_that_crashes_while_its_queue_holds(
    start: Callable[..., Held], connect: Callable[[], Client], client: Client, queue: str, deep: Callable[[str], int]
) -> None:
    """The crashed consumer's unacked messages go to the next one, in order; the producer is not affected."""
    client.channel().call("queue.declare", queue=queue, arguments=MARKS)
    producer = start("aio-pika", queue, 5 * STOP)
    wait_for(lambda: deep(queue) >= STOP, PATIENCE, "a full queue")
    doomed = connect()
    drain = Drain(doomed, queue, prefetch=STOP // 2)
    drain.channel.take("basic.deliver")
    doomed.socket.close()
    asking = client.channel()
    wait_for(lambda: asking.call("queue.declare", queue=queue, passive=True).consumers == 0, PATIENCE, "its end")
    Drain(client, queue, prefetch=20, ledger=Ledger()).take(5 * STOP)
    producer.check_alive()


@pytest.mark.parametrize("library", FOUR)
def test_a_producer_that_crashes_while_it_is_held(
    start: Callable[..., Held], client: Client, queue: str, deep: Callable[[str], int], library: str
) -> None:
    """The messages from a crashed producer are the first it sent, without a gap; the next producer gets the room."""
    client.channel().call("queue.declare", queue=queue, arguments=MARKS)
    producer = start(library, queue, 50 * STOP)
    wait_for(lambda: deep(queue) >= STOP, PATIENCE, "a full queue")
    producer.check_held()
    producer.process.kill()
    producer.process.wait()
    drain = Drain(client, queue, prefetch=20)
    drain.take(STOP)
    next_one = start(library, queue, STOP // 2, first=1)
    while drain.ledger.next.get(1) != STOP // 2:  # parked messages of the dead one may come between
        drain.take(1)
    next_one.check_alive()
