"""Tutorial-style programs with pika's blocking connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from uuid import uuid4

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import UnroutableError

from tests.clients.programs import BATCH, GREETING, LOGS, SEVERITIES, TASKS, TOPICS, fibonacci
from tests.conftest import Names
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.broker


@pytest.fixture
def connect(url: str) -> Iterator[Callable[[], pika.BlockingConnection]]:
    """A function that opens a connection; all are closed at the end."""
    opened: list[pika.BlockingConnection] = []

    def open_one() -> pika.BlockingConnection:
        opened.append(pika.BlockingConnection(pika.URLParameters(url)))
        return opened[-1]

    yield open_one
    for connection in opened:
        if connection.is_open:
            connection.close()


def receive(channel: BlockingChannel, queue: str, count: int, auto_ack: bool = True) -> list[bytes]:
    """Consume `count` messages; return their bodies."""
    found: list[bytes] = []
    for method, _, body in channel.consume(queue, auto_ack=auto_ack, inactivity_timeout=PATIENCE):
        assert method, f"{len(found)} of {count} messages after {PATIENCE} s"
        found.append(body)
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_hello_world(connect: Callable[[], pika.BlockingConnection], queue: str) -> None:
    sender = connect().channel()
    sender.queue_declare(queue)
    sender.basic_publish(exchange="", routing_key=queue, body=GREETING)
    receiver = connect().channel()
    receiver.queue_declare(queue)
    assert receive(receiver, queue, 1) == [GREETING]


def test_work_queue(connect: Callable[[], pika.BlockingConnection], queue: str) -> None:
    """Durable queue, persistent tasks, prefetch 1: a busy worker gets no more tasks, and the other does the rest."""
    boss = connect().channel()
    boss.queue_declare(queue, durable=True)
    done: dict[str, list[bytes]] = {"busy": [], "free": []}
    first: list[int] = []

    def worker(name: str) -> pika.BlockingConnection:
        def work(channel: BlockingChannel, method: pika.spec.Basic.Deliver, _: object, body: bytes) -> None:
            done[name].append(body)
            if name == "busy":
                first.append(method.delivery_tag)
            else:
                channel.basic_ack(method.delivery_tag)

        connection = connect()
        channel = connection.channel()
        channel.queue_declare(queue, durable=True)
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(queue, work)
        return connection

    busy, free = worker("busy"), worker("free")
    for task in TASKS:
        boss.basic_publish("", queue, task, pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent))

    def finished() -> bool:
        busy.process_data_events(0)
        free.process_data_events(0)
        return len(done["busy"]) + len(done["free"]) == len(TASKS)

    wait_for(finished)
    assert len(done["busy"]) == 1
    assert sorted(done["busy"] + done["free"]) == TASKS
    busy.close()
    wait_for(lambda: (free.process_data_events(0), len(done["free"]) == len(TASKS))[1])


def test_publish_subscribe(connect: Callable[[], pika.BlockingConnection], names: Names) -> None:
    exchange = names("logs")
    subscribers = []
    for _ in range(2):
        channel = connect().channel()
        channel.exchange_declare(exchange, exchange_type="fanout")
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, exchange)
        subscribers.append((channel, queue))
    publisher = connect().channel()
    for text in LOGS.values():
        publisher.basic_publish(exchange, "", text)
    for channel, queue in subscribers:
        assert receive(channel, queue, len(LOGS)) == list(LOGS.values())


def test_routing(connect: Callable[[], pika.BlockingConnection], names: Names) -> None:
    exchange = names("direct_logs")
    publisher = connect().channel()
    publisher.exchange_declare(exchange, exchange_type="direct")
    subscribers = {}
    for wanted in (["error"], SEVERITIES):
        channel = connect().channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for severity in wanted:
            channel.queue_bind(queue, exchange, routing_key=severity)
        subscribers[queue] = (channel, [severity.encode() for severity in wanted])
    for severity in SEVERITIES:
        publisher.basic_publish(exchange, severity, severity.encode())
    for queue, (channel, expected) in subscribers.items():
        assert receive(channel, queue, len(expected)) == expected
        assert channel.basic_get(queue)[0] is None


def test_topics(connect: Callable[[], pika.BlockingConnection], names: Names) -> None:
    exchange = names("topic_logs")
    channel = connect().channel()
    channel.exchange_declare(exchange, exchange_type="topic")
    queues = {}
    for pattern in TOPICS:
        queues[pattern] = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queues[pattern], exchange, routing_key=pattern)
    publisher = connect().channel()
    for key, text in LOGS.items():
        publisher.basic_publish(exchange, key, text)
    for pattern, expected in TOPICS.items():
        assert receive(channel, queues[pattern], len(expected)) == expected
        assert channel.basic_get(queues[pattern])[0] is None


@pytest.mark.usefixtures("penstock_only")
def test_partitions(connect: Callable[[], pika.BlockingConnection], names: Names) -> None:
    """Workers share the orders; all orders of a customer go to the same one, in order."""
    exchange = names("orders")
    publisher = connect().channel()
    publisher.exchange_declare(exchange, "x-consistent-hash", arguments={"hash-header": "customer"})
    workers = [connect().channel() for _ in range(3)]
    queues = {worker.queue_declare("", exclusive=True).method.queue: worker for worker in workers}
    for queue, worker in queues.items():
        worker.queue_bind(queue, exchange, routing_key="10")
    publisher.confirm_delivery()
    for number in range(90):
        properties = pika.BasicProperties(headers={"customer": f"c{number % 30}"})
        publisher.basic_publish(exchange, "new", b"%d" % number, properties, mandatory=True)
    counts = {queue: worker.queue_declare(queue, passive=True).method.message_count for queue, worker in queues.items()}
    assert sum(counts.values()) == 90
    for queue, worker in queues.items():
        orders = [int(body) for body in receive(worker, queue, counts[queue])] if counts[queue] else []
        customers = {order % 30 for order in orders}
        assert orders == sorted(orders) and len(orders) == 3 * len(customers)


def serve_rpc(url: str, queue: str, ready: threading.Event, stop: threading.Event) -> None:
    """Serve the RPC program, in a thread of its own with a connection of its own."""

    def answer(
        channel: BlockingChannel, method: pika.spec.Basic.Deliver, request: pika.BasicProperties, body: bytes
    ) -> None:
        channel.basic_publish(
            "",
            request.reply_to,
            str(fibonacci(int(body))),
            pika.BasicProperties(correlation_id=request.correlation_id),
        )
        channel.basic_ack(method.delivery_tag)

    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue)
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(queue, answer)
        ready.set()
        while not stop.is_set():
            connection.process_data_events(0.1)


def test_rpc(connect: Callable[[], pika.BlockingConnection], url: str, queue: str) -> None:
    ready, stop = threading.Event(), threading.Event()
    server = threading.Thread(target=serve_rpc, args=(url, queue, ready, stop))
    server.start()
    try:
        assert ready.wait(PATIENCE)
        connection = connect()
        channel = connection.channel()
        replies: dict[str, bytes] = {}
        reply_to = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_consume(
            reply_to,
            lambda _c, _m, properties, body: replies.__setitem__(properties.correlation_id, body),
            auto_ack=True,
        )
        asked = {}
        for n in range(20):
            correlation = str(uuid4())
            asked[correlation] = str(fibonacci(n)).encode()
            properties = pika.BasicProperties(reply_to=reply_to, correlation_id=correlation)
            channel.basic_publish("", queue, str(n), properties)
        wait_for(lambda: (connection.process_data_events(0), len(replies) == len(asked))[1])
        assert replies == asked
    finally:
        stop.set()
        server.join(PATIENCE)


def test_confirms(connect: Callable[[], pika.BlockingConnection], queue: str) -> None:
    channel = connect().channel()
    channel.queue_declare(queue)
    channel.confirm_delivery()
    for number in range(BATCH):
        channel.basic_publish("", queue, b"%d" % number, mandatory=True)
    with pytest.raises(UnroutableError) as unroutable:
        channel.basic_publish("", f"{queue}-nowhere", b"lost", mandatory=True)
    assert [message.body for message in unroutable.value.messages] == [b"lost"]
    assert receive(channel, queue, BATCH) == [b"%d" % number for number in range(BATCH)]


def test_consumer_that_crashes(connect: Callable[[], pika.BlockingConnection], queue: str) -> None:
    """The crashed consumer's unacked message is delivered to another, marked as redelivered."""
    channel = connect().channel()
    channel.queue_declare(queue)
    channel.basic_publish("", queue, GREETING)
    doomed = connect()
    assert receive(doomed.channel(), queue, 1, auto_ack=False) == [GREETING]
    doomed.close()
    method, _, body = wait_for(lambda: got if (got := channel.basic_get(queue, auto_ack=True))[0] else None)
    assert (body, method.redelivered) == (GREETING, True)
