"""Celery over `penstock.client.kombu` beside a full queue: errors that name it instead of calls that hang."""

# Celery and kombu create their names on first use, where a type checker cannot see them, and Celery has no types.
# mypy: disable-error-code="import-untyped, name-defined, attr-defined, no-any-return"

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any

import kombu
import pytest
from celery import Celery
from flask import Flask
from kombu import pools
from werkzeug.serving import make_server

import penstock.client.kombu
from penstock.client import ProducerError, Stopped, Unconfirmed
from tests.broker import Broker
from tests.broker.flow import MARKS, STOP
from tests.conftest import Names
from tests.raw import Channel
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("broker")]

SECONDS = 1.0
"""How long the applications wait for room."""
POOL = 4
THREADS = 12
TASK = "mail"

Make = Callable[..., "Producing"]


class Producing:
    """An application that sends tasks to `queue`, which has marks, and to `other`, which has none."""

    def __init__(self, url: str, queue: str, other: str, results: str | None = None) -> None:
        self.queue, self.other = queue, other
        self.app = Celery("producing", broker=url.replace("amqp", "penstock", 1), backend=results, set_as_current=False)
        self.app.conf.update(
            broker_transport_options={"confirm_timeout": SECONDS},
            broker_pool_limit=POOL,
            task_default_queue=queue,
            task_queues=[
                kombu.Queue(queue, routing_key=queue, queue_arguments=MARKS),
                kombu.Queue(other, routing_key=other),
            ],
        )
        self.sent: list[str] = []
        self.in_doubt: list[str] = []
        self.not_sent = 0

    def send(self, queue: str | None = None) -> ProducerError | None:
        """Send a task and note its outcome; return the error, if there was one."""
        task_id = kombu.uuid()
        try:
            self.app.send_task(TASK, task_id=task_id, queue=queue or self.queue)
        except Stopped as error:
            self.not_sent += 1
            return error
        except Unconfirmed as error:
            self.in_doubt.append(task_id)
            return error
        self.sent.append(task_id)
        return None

    def fill(self) -> ProducerError:
        """Send tasks until there is an error; return that."""
        return wait_for(self.send, interval=0)

    def send_again(self) -> None:
        """Send tasks until one is sent."""
        wait_for(lambda: self.send() is None, what="room to be noticed")

    def close(self) -> None:
        """Close all connections."""
        pools.reset()
        self.app.close()


@pytest.fixture
def produce(url: str, names: Names) -> Iterator[Make]:
    """A function that makes an application; all are closed at the end."""
    penstock.client.kombu.register()
    made: list[Producing] = []

    def produce(**options: Any) -> Producing:
        made.append(Producing(url, names("full"), names("free"), **options))
        return made[-1]

    yield produce
    for each in made:
        each.close()


def tasks(channel: Channel, queue: str, count: int) -> list[str]:
    """Take so many tasks from a queue, and return their ids."""
    return [str(wait_for(lambda: channel.get(queue)).properties["correlation_id"]) for _ in range(count)]


@pytest.mark.parametrize("results", [None, "rpc://"])
def test_a_full_queue_is_named_and_room_is_noticed(produce: Make, channel: Channel, results: str | None) -> None:
    producing = produce(results=results)
    begun = time.monotonic()
    error = producing.fill()
    assert isinstance(error, Unconfirmed) and time.monotonic() - begun >= SECONDS
    reason = rf"connection.blocked: queue '{producing.queue}' in vhost '/': \d+ of {STOP} messages, resume at \d+"
    with pytest.raises(Unconfirmed, match=rf"may still be queued: .*, routing key '{producing.queue}'; {reason}"):
        raise error
    refused = producing.send()
    with pytest.raises(Stopped, match=f"not sent, .*; {reason}"):
        raise refused or AssertionError("sent")
    assert producing.send(producing.other) is None, "a queue with room is sent to meanwhile"
    taken = tasks(channel, producing.queue, STOP)
    producing.send_again()
    elsewhere = tasks(channel, producing.other, 1)
    assert producing.in_doubt != [] and len(producing.in_doubt) == 1, "one connection leaves one task in doubt"
    taken += tasks(channel, producing.queue, len(producing.sent) + len(producing.in_doubt) - STOP - 1)
    assert Counter(taken + elsewhere) == Counter(producing.sent + producing.in_doubt)
    assert channel.depth(producing.queue) == 0


def test_threads_that_share_a_pool_all_get_an_error(produce: Make, channel: Channel) -> None:
    producing = produce()
    producing.fill()
    start = threading.Barrier(THREADS)

    def send() -> ProducerError | None:
        start.wait(PATIENCE)
        return producing.send()

    with ThreadPoolExecutor(THREADS) as threads:
        errors = [each.result(PATIENCE) for each in [threads.submit(send) for _ in range(THREADS)]]
    assert all(isinstance(error, ProducerError) and producing.queue in str(error) for error in errors)
    assert len(producing.in_doubt) <= POOL, "each connection leaves one task in doubt"
    count = len(producing.sent) + len(producing.in_doubt)
    assert Counter(tasks(channel, producing.queue, count)) == Counter(producing.sent + producing.in_doubt)
    sent = len(producing.sent)
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(lambda _: producing.send_again(), range(THREADS)))
    assert len(producing.sent) - sent == THREADS


def test_a_connection_that_is_closed_meanwhile_is_replaced(produce: Make, broker: Broker, channel: Channel) -> None:
    producing = produce()
    producing.fill()
    held = [each["connection"] for each in broker.held() if producing.queue in str(each["causes"])]
    assert broker.penstock("connection", "close", *held).returncode == 0
    error = producing.send()
    assert isinstance(error, Unconfirmed) and f"queue '{producing.queue}'" in str(error)
    channel.call("queue.purge", queue=producing.queue)
    producing.send_again()


def flask_app(producing: Producing) -> Flask:
    """Return the web application of docs/clients.md."""
    web = Flask("shop")

    @web.post("/orders")
    def order() -> tuple[dict[str, str], int]:
        return {"task": producing.app.send_task(TASK).id}, 202

    @web.errorhandler(ProducerError)
    def no_room(held: ProducerError) -> tuple[dict[str, str], int]:
        return {"error": str(held)}, 503

    return web


@pytest.fixture
def post(produce: Make) -> Iterator[tuple[Producing, Callable[[], tuple[int, dict[str, str]]]]]:
    """An application, and a function that posts an order to its threaded server; it returns status and body."""
    producing = produce()
    server = make_server("127.0.0.1", 0, flask_app(producing), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def post() -> tuple[int, dict[str, str]]:
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
        try:
            connection.request("POST", "/orders")
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    yield producing, post
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_view_answers_503_and_names_the_queue(
    post: tuple[Producing, Callable[[], tuple[int, dict[str, str]]]], channel: Channel
) -> None:
    producing, order = post
    assert order()[0] == 202
    producing.fill()
    with ThreadPoolExecutor(THREADS) as threads:
        answers = list(threads.map(lambda _: order(), range(THREADS)))
    assert {status for status, _ in answers} == {503}
    assert all(f"queue '{producing.queue}' in vhost '/'" in body["error"] for _, body in answers)
    channel.call("queue.purge", queue=producing.queue)
    wait_for(lambda: order()[0] == 202, what="room to be noticed")
