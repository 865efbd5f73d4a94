"""Messages are published and got over HTTP, as by RabbitMQ's management, and clients see what any client would."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pika
import pytest
import requests

from tests.console.api.calls import LIMITED, Answer, Served, path
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

EVERYTHING = {
    "content_type": "text/plain", "content_encoding": "gzip", "delivery_mode": 2, "priority": 3, "correlation_id": "c",
    "reply_to": "r", "expiration": "60000", "message_id": "m", "timestamp": 1234567890, "type": "t", "user_id": "guest",
    "app_id": "a", "headers": {"a": 1, "b": "x", "c": [1, {"z": True}]},
}  # fmt: skip


def publish(node: Served, exchange: str, key: str, payload: str = "hello", **more: Any) -> Answer:
    body = {"properties": {}, "routing_key": key, "payload": payload, "payload_encoding": "string", **more}
    return node.api("POST", path("exchanges", exchange, "publish"), body)


def get(node: Served, queue: str, **more: Any) -> Answer:
    body = {"count": 10, "ackmode": "ack_requeue_true", "encoding": "auto", **more}
    return node.api("POST", path("queues", queue, "get"), body)


def depth(node: Served, queue: str) -> int:
    with node.channel() as channel:
        return int(channel.queue_declare(queue, passive=True).method.message_count)


@pytest.fixture
def queue(node: Served) -> Any:
    assert node.api("PUT", path("queues", "q"), {}).status == 201
    yield "q"
    node.api("DELETE", path("queues", "q"))


def test_a_client_gets_what_was_published(node: Served, queue: str) -> None:
    assert publish(node, "amq.default", queue, properties=EVERYTHING).body == {"routed": True}
    binary = base64.b64encode(b"\x00\xff").decode()
    assert publish(node, "amq.default", queue, binary, payload_encoding="base64").body == {"routed": True}
    with node.channel() as channel:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        assert body == b"hello" and not method.redelivered
        assert {name: getattr(properties, name) for name in EVERYTHING} == EVERYTHING
        assert channel.basic_get(queue, auto_ack=True)[2] == b"\x00\xff"


def test_what_a_client_published_is_got(node: Served, queue: str) -> None:
    with node.channel() as channel:
        channel.confirm_delivery()
        sent = pika.BasicProperties(headers={"bytes": b"\xff", "n": 2**40}, content_type="x", timestamp=5)
        channel.basic_publish("", queue, b"text", sent)
        channel.basic_publish("", queue, b"\xff\x00")
    first, second = get(node, queue).body
    assert first == {
        "payload_bytes": 4, "redelivered": False, "exchange": "", "routing_key": queue, "message_count": 1,
        "properties": {"content_type": "x", "headers": {"bytes": "\ufffd", "n": 2**40}, "timestamp": 5},
        "payload": "text", "payload_encoding": "string",
    }  # fmt: skip
    assert (second["payload"], second["payload_encoding"], second["properties"]) == ("/wA=", "base64", [])
    (cut,) = get(node, queue, count="1", truncate=2, encoding="base64").body
    assert (cut["payload"], cut["payload_bytes"], cut["redelivered"]) == ("dGU=", 4, True)


@pytest.mark.parametrize(
    ("mode", "left"),
    [("ack_requeue_true", 3), ("reject_requeue_true", 3), ("ack_requeue_false", 1), ("reject_requeue_false", 1)],
)
def test_the_mode_decides_what_is_left(node: Served, queue: str, mode: str, left: int) -> None:
    for number in range(3):
        publish(node, "amq.default", queue, str(number))
    found = get(node, queue, count=2, ackmode=mode).body
    assert [(message["payload"], message["message_count"]) for message in found] == [("0", 2), ("1", 1)]
    assert depth(node, queue) == left
    following = get(node, queue, count=1).body[0]
    assert (following["payload"], following["redelivered"]) == (("0", True) if left == 3 else ("2", False))


def test_a_publish_that_no_queue_takes_is_not_routed(node: Served) -> None:
    assert publish(node, "amq.topic", "nowhere").body == {"routed": False}
    missing = publish(node, "none", "k")
    assert missing.status == 400 and missing.body["reason"] == "404 NOT_FOUND - no exchange 'none' in vhost '/'"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"payload": 5}, "payload_not_string"),
        ({"payload_encoding": "hex"}, ["unsupported_encoding", "hex"]),
        ({"payload": "!!!", "payload_encoding": "base64"}, ["not_base64", "!!!"]),
        ({"properties": {"delivery_mode": "2"}}, ["not_int", "delivery_mode"]),
        ({"properties": {"message_id": 7}}, ["not_string", "message_id"]),
        ({"properties": {"headers": {"a": None}}}, "null_not_allowed"),
        ({"properties": {"message_id": "x" * 256}}, "message_id has 256 bytes, more than 255"),
        ({"routing_key": "x" * 256}, "routing_key has 256 bytes, more than 255"),
        (
            {"properties": {"user_id": "other"}},
            "406 PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was 'guest'",
        ),
        (
            {"properties": {"expiration": "soon"}},
            "406 PRECONDITION_FAILED - invalid expiration 'soon': no_integer",
        ),
    ],
)
def test_nonsense_is_not_published(node: Served, queue: str, more: dict[str, Any], reason: Any) -> None:
    answer = publish(node, "amq.default", queue, **more)
    assert answer.status == 400 and answer.body == {"error": "bad_request", "reason": reason}
    assert get(node, queue).body == []


def test_what_a_get_needs(node: Served, queue: str) -> None:
    for more, reason in (
        ({"count": "x"}, ["not_integer", "x"]),
        ({"count": -1}, "count is negative"),
        ({"encoding": "hex"}, "Unsupported encoding. Please use auto or base64."),
    ):
        assert get(node, queue, **more).body["reason"] == reason
    assert get(node, queue, ackmode="x").status == 400
    assert node.api("POST", path("queues", queue, "get"), {}).body["reason"] == (
        "[{key_missing,ackmode},{key_missing,count},{key_missing,encoding}]"
    )
    assert get(node, "none").body == {"error": "not_found", "reason": "NOT_FOUND - no queue 'none' in vhost '/'"}


def test_users_publish_and_get_by_their_rights(node: Served) -> None:
    limited = Served(node.broker, node.api.of(LIMITED))
    node.api("PUT", path("queues", "mine.q"), {})
    node.api("PUT", path("exchanges", "mine.x"), {"type": "topic"})
    node.api("POST", path("bindings", "e", "mine.x", "q", "mine.q"), {"routing_key": "#"})
    refused = publish(limited, "amq.topic", "k")
    assert refused.status == 400 and "403 ACCESS_REFUSED - write access to exchange 'amq.topic'" in str(refused.body)
    assert publish(limited, "mine.x", "k").body == {"routed": True}
    node.broker.call(
        "topic_permission_set", user=LIMITED, vhost="/", exchange="mine.x", write=r"^own\.", read=""
    )  # fmt: skip
    topic = wait_for(lambda: (found := publish(limited, "mine.x", "k")).status == 400 and found, what="a refusal")
    assert "write access to topic 'k' in exchange 'mine.x' in vhost '/' refused" in topic.body["reason"]
    assert publish(limited, "mine.x", "own.k").body == {"routed": True}
    assert len(get(limited, "mine.q").body) >= 2
    node.api("PUT", path("queues", "theirs"), {})
    theirs = get(limited, "theirs")
    assert theirs.status == 401 and theirs.body["reason"].startswith("ACCESS_REFUSED - read access to queue 'theirs'")
    for name in ("mine.q", "theirs"):
        node.api("DELETE", path("queues", name))
    node.api("DELETE", path("exchanges", "mine.x"))


def test_a_session_publishes_without_a_password(node: Served, queue: str) -> None:
    begun = requests.post(
        f"{node.api.url}/session", json={"username": "guest", "password": "guest"}, timeout=60
    )  # fmt: skip
    body = {"properties": {}, "routing_key": queue, "payload": "x", "payload_encoding": "string"}
    sent = node.api("POST", path("exchanges", "amq.default", "publish"), body, cookies=begun.cookies)
    assert sent.body == {"routed": True}


def test_a_full_queue_refuses_within_a_bounded_time(node: Served) -> None:
    node.api("PUT", path("queues", "full"), {"arguments": {"x-flow-stop-count": 3, "x-flow-resume-count": 1}})
    began, outcomes = time.monotonic(), []
    while not outcomes or outcomes[-1].status == 200:
        outcomes.append(publish(node, "amq.default", "full"))
        assert len(outcomes) < 100
    accepted = len(outcomes) - 1
    refused = outcomes[-1]
    assert refused.status == 503 and refused.body["error"] == "service_unavailable"
    assert refused.body["reason"].startswith("no room: queue 'full' in vhost '/': ")
    assert "of 3 messages, resume at 1" in refused.body["reason"]
    with ThreadPoolExecutor(12) as crowd:
        crowded = list(crowd.map(lambda _: publish(node, "amq.default", "full"), range(12)))
    assert {answer.status for answer in crowded} == {503}
    assert time.monotonic() - began < 60
    assert depth(node, "full") == accepted
    found = get(node, "full", count=100, ackmode="ack_requeue_false").body
    assert len(found) == accepted
    wait_for(lambda: publish(node, "amq.default", "full").status == 200, what="room again")
    assert depth(node, "full") == 1
    node.api("DELETE", path("queues", "full"))


def test_a_publish_that_waits_is_there_once_or_never(node: Served) -> None:
    node.api("PUT", path("queues", "full"), {"arguments": {"x-flow-stop-count": 3, "x-flow-resume-count": 1}})
    while publish(node, "amq.default", "full").status == 200:
        pass
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(publish, node, "amq.default", "full", "late")
        found = []
        while not waiting.done():
            found += get(node, "full", ackmode="ack_requeue_false").body
    found += get(node, "full", ackmode="ack_requeue_false").body
    assert waiting.result().status in (200, 503)
    late = [message for message in found if message["payload"] == "late"]
    assert len(late) == (1 if waiting.result().status == 200 else 0)
    node.api("DELETE", path("queues", "full"))


def test_large_messages_come_whole_or_are_refused(node: Served, queue: str) -> None:
    payload = base64.b64encode(bytes(range(256)) * 4096 * 7).decode()
    assert publish(node, "amq.default", queue, payload, payload_encoding="base64").body == {"routed": True}
    assert publish(node, "amq.default", queue, payload, payload_encoding="base64").body == {"routed": True}
    found = get(node, queue, encoding="base64").body
    assert len(found) == 1 and found[0]["payload"] == payload  # the second would be too much for one answer
    with node.channel() as channel:
        channel.confirm_delivery()
        channel.queue_purge(queue)
        channel.basic_publish("", queue, bytes(9 * 1024 * 1024))
    refused = get(node, queue, count=1, ackmode="ack_requeue_false")
    assert refused.status == 400 and "truncate it" in refused.body["reason"]
    (cut,) = get(node, queue, count=1, truncate=100).body
    assert cut["payload_bytes"] == 9 * 1024 * 1024 and len(cut["payload"]) == 100
    too_large = base64.b64encode(bytes(8 * 1024 * 1024 + 1)).decode()
    assert publish(node, "amq.default", queue, too_large, payload_encoding="base64").status == 413


def test_rabbitmqadmin_publishes_and_gets(node: Served, queue: str) -> None:
    def run(*arguments: str) -> str:
        return subprocess.run(
            ["rabbitmqadmin", "-P", str(node.port), *arguments], capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()

    assert run("publish", "routing_key=q", "payload=one", 'properties={"delivery_mode":2}') == "Message published"
    assert run("publish", "routing_key=none", "payload=x") == "Message published but NOT routed"
    for mode in ("ack_requeue_true", "reject_requeue_true", "reject_requeue_false"):
        (message,) = json.loads(run("-f", "raw_json", "get", f"queue={queue}", "count=5", f"ackmode={mode}"))
        assert (message["payload"], message["properties"]) == ("one", {"delivery_mode": 2})
    run("publish", "routing_key=q", "payload=AAH/", "payload_encoding=base64")
    assert "AAH/" in run("get", f"queue={queue}", "ackmode=ack_requeue_false")
    assert json.loads(run("-f", "raw_json", "get", f"queue={queue}")) == []
