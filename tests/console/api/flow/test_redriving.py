"""Dead letters are sent back over HTTP, and messages moved to another queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest

from tests.console.http.node import GUEST, Answer, HttpBroker

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

QUEUES = ("born", "dead", "other", "small")


@contextmanager
def opened(node: HttpBroker) -> Iterator[Any]:
    """Open a channel of pika."""
    with pika.BlockingConnection(pika.ConnectionParameters(*node.address)) as connection:
        yield connection.channel()


def moved(node: HttpBroker, queue: str, kind: str, content: object, user: tuple[str, str] = GUEST) -> Answer:
    return node.request("POST", f"/api/queues/%2F/{queue}/{kind}", content, user=user)


@pytest.fixture
def queues(node: HttpBroker) -> Iterator[None]:
    with opened(node) as channel:
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        channel.queue_declare("born", arguments=dead)
        for name in ("dead", "other"):
            channel.queue_declare(name)
        channel.queue_declare("small", arguments={"x-max-length": 3, "x-overflow": "flow"})
    yield
    for name in QUEUES:
        node.request("DELETE", f"/api/queues/%2F/{name}")


def bury(node: HttpBroker, *bodies: bytes) -> None:
    """Publish messages to `born` that are rejected there."""
    with opened(node) as channel:
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", "born", body)
        for method, _, _ in channel.consume("born"):
            channel.basic_reject(method.delivery_tag, requeue=False)
            if method.delivery_tag == len(bodies):
                break


def drained(node: HttpBroker, queue: str, count: int) -> list[tuple[bytes, pika.BasicProperties]]:
    """Take so many messages of a queue."""
    found = []
    with opened(node) as channel:
        for method, properties, body in channel.consume(queue, auto_ack=True):
            found.append((body, properties))
            if method.delivery_tag == count:
                return found
    raise AssertionError("the consumer was cancelled")


@pytest.mark.usefixtures("queues")
def test_dead_letters_go_back(node: HttpBroker) -> None:
    bury(node, b"1", b"2", b"3")
    answer = moved(node, "dead", "redrive", {"count": 2})
    assert (answer.status, answer.json) == (200, {"moved": 2, "kept": 0, "remaining": 1, "stopped": None})
    assert moved(node, "dead", "redrive", {}).json["moved"] == 1
    found = drained(node, "born", 3)
    assert [body for body, _ in found] == [b"1", b"2", b"3"]
    assert found[0][1].headers["x-first-death-queue"] == "born", "the count of deaths goes on"


@pytest.mark.usefixtures("queues")
def test_messages_go_to_another_queue_until_it_is_full(node: HttpBroker) -> None:
    bury(node, *[b"%d" % number for number in range(6)])
    first = moved(node, "dead", "move-messages", {"target": "small"}).json
    assert first["moved"] >= 3 and first["moved"] + first["remaining"] == 6
    assert "queue 'small'" in first["stopped"]
    rest = moved(node, "dead", "move-messages", {"target": "other"}).json
    assert rest == {"moved": first["remaining"], "kept": 0, "remaining": 0, "stopped": None}
    found = [*drained(node, "small", first["moved"]), *drained(node, "other", rest["moved"])]
    assert [body for body, _ in found] == [b"%d" % number for number in range(6)]


@pytest.mark.usefixtures("queues")
@pytest.mark.parametrize(
    ("request_path", "body", "status"),
    [
        (("dead", "move-messages"), {"target": "dead"}, 400),
        (("dead", "move-messages"), {"target": "nowhere"}, 404),
        (("dead", "move-messages"), {}, 400),
        (("dead", "redrive"), {"count": 0}, 400),
        (("dead", "redrive"), {"count": 1001}, 400),
        (("dead", "redrive"), {"more": 1}, 400),
        (("nowhere", "redrive"), {}, 404),
    ],
)
def test_a_bad_request_moves_nothing(
    node: HttpBroker, request_path: tuple[str, str], body: dict[str, object], status: int
) -> None:
    bury(node, b"1")
    assert moved(node, *request_path, body).status == status
    assert drained(node, "dead", 1)[0][0] == b"1"


@pytest.mark.usefixtures("queues")
def test_a_user_needs_the_rights_of_a_client(node: HttpBroker) -> None:
    bury(node, b"1")
    assert moved(node, "dead", "redrive", {}, ("reader", "reader")).status == 401
    assert drained(node, "dead", 1)[0][0] == b"1"
