"""Tutorial-style programs with kombu, and with py-amqp below it (the libraries under Celery)."""

# kombu creates its names on first use, where a type checker cannot see them; py-amqp has no types.
# mypy: disable-error-code="name-defined, attr-defined, no-untyped-call, import-untyped, no-any-return"

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import amqp
import kombu
import pytest

from tests.clients.programs import BATCH, GREETING, LOGS, SEVERITIES, TASKS, TOPICS, fibonacci
from tests.conftest import Names
from tests.raw import Address
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.broker


@pytest.fixture
def connect(url: str) -> Iterator[Callable[[], kombu.Connection]]:
    """A function that opens a connection; all are closed at the end."""
    opened: list[kombu.Connection] = []

    def open_one() -> kombu.Connection:
        opened.append(kombu.Connection(url, transport_options={"confirm_publish": False}))
        return opened[-1].connect() and opened[-1]

    yield open_one
    for connection in opened:
        connection.release()


def receive(connection: kombu.Connection, queue: kombu.Queue, count: int) -> list[Any]:
    """Consume and acknowledge `count` messages; return their bodies."""
    found: list[Any] = []

    def take(body: Any, message: kombu.Message) -> None:
        found.append(body)
        message.ack()

    with connection.Consumer(queue, callbacks=[take], auto_declare=False):
        while len(found) < count:
            connection.drain_events(timeout=PATIENCE)
    return found


def temporary(connection: kombu.Connection, exchange: kombu.Exchange, *keys: str) -> kombu.Queue:
    """Return a server-named exclusive queue, bound by each key."""
    queue = kombu.Queue("", exclusive=True, channel=connection.default_channel)
    queue.declare()
    for key in keys:
        queue.bind_to(exchange, routing_key=key)
    return queue


def test_hello_world(connect: Callable[[], kombu.Connection], queue: str) -> None:
    declared = kombu.Queue(queue, durable=False)
    sender, receiver = connect(), connect()
    sender.Producer().publish({"text": "Wehr, 水門"}, routing_key=queue, declare=[declared])
    assert receive(receiver, declared(receiver.default_channel), 1) == [{"text": "Wehr, 水門"}]


def test_work_queue(connect: Callable[[], kombu.Connection], queue: str) -> None:
    tasks = kombu.Queue(queue, durable=True)
    busy, free, boss = connect(), connect(), connect()
    done: dict[str, list[bytes]] = {"busy": [], "free": []}

    def at_work(connection: kombu.Connection, name: str) -> kombu.Consumer:
        def work(body: bytes, message: kombu.Message) -> None:
            done[name].append(body)
            if name == "free":
                message.ack()

        consumer = connection.Consumer(tasks, callbacks=[work], accept=None, prefetch_count=1)
        consumer.consume()
        return consumer

    consumers = at_work(busy, "busy"), at_work(free, "free")
    producer = boss.Producer()
    for task in TASKS:
        producer.publish(task, routing_key=queue, delivery_mode="persistent")

    def finished() -> bool:
        for connection in (busy, free):
            try:
                connection.drain_events(timeout=0.05)
            except TimeoutError:
                continue
        return len(done["busy"]) + len(done["free"]) == len(TASKS)

    wait_for(finished)
    assert len(done["busy"]) == 1
    assert sorted(map(bytes, done["busy"] + done["free"])) == TASKS
    for consumer in consumers:
        consumer.close()


def test_publish_subscribe(connect: Callable[[], kombu.Connection], names: Names) -> None:
    exchange = kombu.Exchange(names("logs"), type="fanout", durable=False)
    publisher, subscribers = connect(), [connect(), connect()]
    exchange(publisher.default_channel).declare()
    queues = [temporary(subscriber, exchange, "") for subscriber in subscribers]
    producer = publisher.Producer(exchange=exchange)
    for text in LOGS.values():
        producer.publish(text.decode())
    for subscriber, queue in zip(subscribers, queues, strict=True):
        assert receive(subscriber, queue, len(LOGS)) == [text.decode() for text in LOGS.values()]


def test_routing(connect: Callable[[], kombu.Connection], names: Names) -> None:
    exchange = kombu.Exchange(names("direct_logs"), type="direct", durable=False)
    connection = connect()
    exchange(connection.default_channel).declare()
    errors, everything = temporary(connection, exchange, "error"), temporary(connection, exchange, *SEVERITIES)
    producer = connect().Producer(exchange=exchange)
    for severity in SEVERITIES:
        producer.publish(severity, routing_key=severity)
    assert receive(connection, errors, 1) == ["error"]
    assert receive(connection, everything, 3) == SEVERITIES


def test_topics(connect: Callable[[], kombu.Connection], names: Names) -> None:
    exchange = kombu.Exchange(names("topic_logs"), type="topic", durable=False)
    connection = connect()
    exchange(connection.default_channel).declare()
    queues = {pattern: temporary(connection, exchange, pattern) for pattern in TOPICS}
    producer = connect().Producer(exchange=exchange)
    for key, text in LOGS.items():
        producer.publish(text.decode(), routing_key=key)
    for pattern, expected in TOPICS.items():
        assert receive(connection, queues[pattern], len(expected)) == [text.decode() for text in expected]


def serve_rpc(url: str, requests: kombu.Queue, ready: threading.Event, stop: threading.Event) -> None:
    """Serve the RPC program, in a thread of its own with a connection of its own."""
    with kombu.Connection(url) as connection:
        producer = connection.Producer()

        def answer(body: int, message: kombu.Message) -> None:
            asked = message.properties
            producer.publish(fibonacci(body), routing_key=asked["reply_to"], correlation_id=asked["correlation_id"])
            message.ack()

        with connection.Consumer(requests, callbacks=[answer], prefetch_count=1):
            ready.set()
            while not stop.is_set():
                try:
                    connection.drain_events(timeout=0.1)
                except TimeoutError:
                    continue


def test_rpc(connect: Callable[[], kombu.Connection], url: str, queue: str) -> None:
    requests = kombu.Queue(queue, durable=False)
    ready, stop = threading.Event(), threading.Event()
    server = threading.Thread(target=serve_rpc, args=(url, requests, ready, stop))
    server.start()
    try:
        assert ready.wait(PATIENCE)
        connection = connect()
        callbacks = temporary(connection, kombu.Exchange(""))
        replies: dict[str, int] = {}

        def replied(body: int, message: kombu.Message) -> None:
            replies[message.properties["correlation_id"]] = body

        asked = {str(uuid4()): n for n in range(20)}
        with connection.Consumer(callbacks, callbacks=[replied], no_ack=True, auto_declare=False):
            producer = connection.Producer()
            for correlation, n in asked.items():
                producer.publish(n, routing_key=queue, reply_to=callbacks.name, correlation_id=correlation)
            while len(replies) < len(asked):
                connection.drain_events(timeout=PATIENCE)
        assert replies == {correlation: fibonacci(n) for correlation, n in asked.items()}
    finally:
        stop.set()
        server.join(PATIENCE)


def test_confirms(url: str, queue: str) -> None:
    """With confirm_publish, publish returns once the broker has confirmed."""
    with kombu.Connection(url, transport_options={"confirm_publish": True}) as connection:
        declared = kombu.Queue(queue, durable=True)
        producer = connection.Producer()
        for number in range(BATCH):
            producer.publish(number, routing_key=queue, declare=[declared], timeout=PATIENCE)
        assert receive(connection, declared, BATCH) == list(range(BATCH))


@pytest.fixture
def amqp_connection(address: Address) -> Iterator[amqp.Connection]:
    with amqp.Connection(f"{address.host}:{address.port}", confirm_publish=True) as connection:
        yield connection


def test_py_amqp(amqp_connection: amqp.Connection, queue: str) -> None:
    channel = amqp_connection.channel()
    channel.queue_declare(queue, auto_delete=False)
    for _ in range(100):
        channel.basic_publish_confirm(amqp.Message(GREETING, delivery_mode=2), routing_key=queue)
    found: list[amqp.Message] = []
    channel.basic_qos(0, 7, False)
    tag = channel.basic_consume(queue, callback=found.append)
    while len(found) < 100:
        amqp_connection.drain_events(timeout=PATIENCE)
        channel.basic_ack(found[-1].delivery_tag, multiple=True)
    channel.basic_cancel(tag)
    assert {bytes(message.body) for message in found} == {GREETING}


def test_py_amqp_return(amqp_connection: amqp.Connection) -> None:
    channel = amqp_connection.channel()
    returned: list[tuple[Any, ...]] = []
    channel.events["basic_return"].add(lambda *arguments: returned.append(arguments))
    channel.basic_publish(amqp.Message(GREETING), routing_key="nowhere", mandatory=True)
    wait_for(lambda: (channel.queue_declare("", exclusive=True), returned)[1])
    assert returned[0][1:3] == ("", "nowhere")


def test_py_amqp_heartbeat(address: Address) -> None:
    """A connection that only sends heartbeats stays open."""
    with amqp.Connection(f"{address.host}:{address.port}", heartbeat=2) as connection:
        for _ in range(28):
            connection.heartbeat_tick()
            try:
                connection.drain_events(timeout=0.25)
            except TimeoutError:
                continue
        connection.channel().queue_declare("", exclusive=True)
