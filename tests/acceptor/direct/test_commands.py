"""What users of the HTTP interface do as clients: methods, publishes and gets, with their rights and flow control."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from acceptor.direct.steps import CONFIRM_SECONDS, WAIT_SECONDS
from penstock.amqp.properties import PROPERTIES_AT, decode_properties
from tests.acceptor.direct.steps import (
    begin,
    bodies,
    depth,
    done,
    fill,
    get,
    limit,
    method,
    pass_time,
    publish,
    publishing,
)
from tests.simulator.joined.node import Node

# Methods


def test_what_is_declared_is_the_users(node: Node) -> None:
    assert method(node, "queue_declare", queue="q", durable=True)["result"] == {
        "queue": "q", "message_count": 0, "consumer_count": 0,
    }  # fmt: skip
    assert method(node, "exchange_declare", exchange="x", type="topic") == {"result": {}}
    assert method(node, "queue_bind", queue="q", exchange="x", routing_key="a.*") == {"result": {}}
    topology = node.router.topology
    queue, exchange = topology.queue("/", "q"), topology.exchange("/", "x")
    (binding,) = topology.bindings_from("/", "x")
    assert queue and exchange and queue.maker == exchange.maker == binding.maker == "guest"
    assert method(node, "queue_unbind", queue="q", exchange="x", routing_key="a.*") == {"result": {}}
    assert not topology.bindings_from("/", "x")
    assert method(node, "exchange_delete", exchange="x") == {"result": {}}
    assert publish(node, "q") == {"result": {"routed": True}}
    assert method(node, "queue_delete", queue="q") == {"result": {"message_count": 1}}


@pytest.mark.parametrize(
    ("name", "arguments", "text", "kind"),
    [
        ("queue_declare", {"queue": "q"}, "inequivalent arg 'durable' for queue 'q' in vhost '/'", "invalid"),
        ("queue_declare", {"queue": "amq.q"}, "contains reserved prefix", "denied"),
        ("queue_bind", {"queue": "q", "exchange": "none"}, "no exchange 'none' in vhost '/'", "not_found"),
        ("queue_purge", {"queue": "none"}, "no queue 'none' in vhost '/'", "not_found"),
        ("queue_purge", {"queue": "q", "nowait": True}, "queue.purge is not carried out here", "invalid"),
        ("tx_select", {}, "tx.select is not carried out here", "invalid"),
    ],
)
def test_refusals_are_those_of_clients(node: Node, name: str, arguments: dict[str, Any], text: str, kind: str) -> None:
    node.declare("q", durable=True)
    node.settle()
    answer = method(node, name, **arguments)
    assert text in answer["error"] and answer["kind"] == kind


@pytest.mark.parametrize("payload", ["", "AAAA", "%%%", "AAoACg=="])
def test_what_is_no_method_is_refused(node: Node, payload: str) -> None:
    assert done(node, "method", payload=payload)["kind"] == "invalid"


def test_a_user_needs_the_rights_of_a_client(node: Node) -> None:
    node.declare("other")
    node.declare("mine.q")
    limit(node, "limited", r"^mine\.")
    for name, arguments in (
        ("queue_declare", {"queue": "q"}),
        ("queue_purge", {"queue": "other"}),
        ("queue_delete", {"queue": "other"}),
        ("exchange_declare", {"exchange": "x", "type": "direct"}),
        ("queue_bind", {"queue": "mine.q", "exchange": "amq.direct"}),
        ("queue_bind", {"queue": "other", "exchange": "amq.direct"}),
    ):
        answer = method(node, name, user="limited", **arguments)
        assert answer["kind"] == "denied" and "refused for user 'limited'" in answer["error"]
    got = done(node, "get", user="limited", queue="other", count=1, ack_mode="ack_requeue_true", body_bytes=-1)
    assert got["kind"] == "denied"
    published = done(node, "publish", user="limited", **publishing("other"))
    assert published["error"].startswith("403 ACCESS_REFUSED") and published["kind"] == "invalid"
    assert method(node, "queue_purge", user="limited", queue="mine.q")["result"] == {"message_count": 0}


def test_an_operator_has_all_rights_and_declares_for_nobody(node: Node) -> None:
    node.router.command("user_delete", name="guest")
    node.settle()
    assert "result" in method(node, "queue_declare", user="", queue="q", durable=True)
    assert method(node, "exchange_declare", user="", exchange="x", type="topic") == {"result": {}}
    assert method(node, "queue_bind", user="", queue="q", exchange="x", routing_key="a") == {"result": {}}
    topology = node.router.topology
    queue, exchange = topology.queue("/", "q"), topology.exchange("/", "x")
    (binding,) = topology.bindings_from("/", "x")
    assert queue and exchange and queue.maker is exchange.maker is binding.maker is None
    assert done(node, "publish", user="", **publishing("a", exchange="x", user_id="anybody")) == {
        "result": {"routed": True}
    }
    (message,) = done(
        node, "get", user="", queue="q", count=1, ack_mode="ack_requeue_false", body_bytes=-1
    )["result"]  # fmt: skip
    assert message["routing_key"] == "a"
    assert method(node, "queue_delete", user="", queue="q") == {"result": {"message_count": 0}}


# Publishes


def test_a_message_keeps_its_properties(node: Node) -> None:
    node.declare("q")
    node.settle()
    given = {"content_type": "text/plain", "headers": {"a": 1, "b": [True, "x"]}, "delivery_mode": 2, "priority": 3}
    assert publish(node, "q", b"body", **given) == {"result": {"routed": True}}
    (message,) = get(node, "q")["result"]
    assert decode_properties(base64.b64decode(message["header"])[PROPERTIES_AT:]) == given
    assert (message["exchange"], message["routing_key"], message["redelivered"]) == ("", "q", False)


def test_a_large_message_arrives_whole(node: Node) -> None:
    node.declare("q")
    node.settle()
    body = bytes(range(256)) * 8192
    assert publish(node, "q", body) == {"result": {"routed": True}}
    assert bodies(get(node, "q")) == [body]


def test_publishes_that_go_nowhere_say_so(node: Node) -> None:
    assert publish(node, "none") == {"result": {"routed": False}}
    missing = publish(node, "k", exchange="none")
    assert missing == {"error": "404 NOT_FOUND - no exchange 'none' in vhost '/'", "kind": "invalid"}
    claimed = publish(node, "none", user_id="other")
    assert claimed["error"].startswith("406 PRECONDITION_FAILED - user_id property set to 'other'")


def test_a_queue_that_rejects_is_reported(node: Node) -> None:
    node.declare("q", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    node.settle()
    assert publish(node, "q") == {"result": {"routed": True}}
    rejected = publish(node, "q")
    assert rejected == {"error": "rejected Unable to publish message. Check queue limits.", "kind": "invalid"}
    assert depth(node, "q") == (1, 0)


def test_a_full_queue_refuses_a_publish_that_has_waited(node: Node) -> None:
    fill(node)
    answers = begin(node, "publish", **publishing("q", b"late"))
    node.settle()
    assert not answers and node.core(0).direct.waiting == 1
    pass_time(node, WAIT_SECONDS)
    (answer,) = answers
    assert answer["kind"] == "busy"
    assert answer["error"].startswith("no room: queue 'q' in vhost '/': ")
    assert "5 of 4 messages, resume at 2" in answer["error"]
    assert node.core(0).direct.waiting == 0
    assert b"late" not in bodies(get(node, "q", ack_mode="ack_requeue_false"))
    pass_time(node, WAIT_SECONDS)
    assert depth(node, "q") == (0, 0)  # nothing of the refused publish comes later


def test_a_publish_that_waits_goes_when_there_is_room(node: Node) -> None:
    fill(node)
    answers = begin(node, "publish", **publishing("q", b"late"))
    node.settle()
    assert not answers
    assert len(get(node, "q", count=4, ack_mode="ack_requeue_false")["result"]) == 4
    pass_time(node, 0.1)
    assert answers == [{"result": {"routed": True}}]
    assert bodies(get(node, "q"))[-1] == b"late"
    pass_time(node, CONFIRM_SECONDS)
    assert len(answers) == 1


def test_the_publish_that_fills_a_queue_is_confirmed(node: Node) -> None:
    node.declare("q", **{"x-flow-stop-count": 2, "x-flow-resume-count": 1})
    node.settle()
    assert [publish(node, "q") for _ in range(3)] == [{"result": {"routed": True}}] * 3
    assert node.state("q").saturation.saturated


def test_an_unconfirmed_publish_says_that_its_fate_is_unknown(node: Node) -> None:
    node.declare("q")
    node.settle()
    node.kill_shard(node.queue("q").shard)
    answers = begin(node, "publish", **publishing("q"))
    pass_time(node, WAIT_SECONDS)
    pass_time(node, CONFIRM_SECONDS)
    (answer,) = answers
    assert answer["kind"] == "busy"


# Gets


@pytest.mark.parametrize(
    ("ack_mode", "left", "again"),
    [
        ("ack_requeue_true", 3, True),
        ("reject_requeue_true", 3, True),
        ("ack_requeue_false", 1, False),
        ("reject_requeue_false", 1, False),
    ],
)
def test_the_mode_decides_what_is_left(node: Node, ack_mode: str, left: int, again: bool) -> None:
    node.declare("dead")
    node.declare("q", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    node.settle()
    for body in (b"1", b"2", b"3"):
        publish(node, "q", body)
    first = get(node, "q", 2, ack_mode)
    assert bodies(first) == [b"1", b"2"]
    assert [message["remaining"] for message in first["result"]] == [2, 1]
    assert not any(message["redelivered"] for message in first["result"])
    assert depth(node, "q") == (left, 0)
    assert depth(node, "dead") == (2 if ack_mode == "reject_requeue_false" else 0, 0)
    following = get(node, "q", 1)
    assert following["result"][0]["redelivered"] is again
    assert bodies(following) == [b"1" if again else b"3"]


def test_an_answer_is_bounded_and_the_rest_stays(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acceptor.direct.commands.GET_BYTES", 3000)
    node.declare("q")
    node.settle()
    for _ in range(3):
        publish(node, "q", bytes(900))
    publish(node, "q", bytes(5000))
    assert len(get(node, "q", ack_mode="ack_requeue_false")["result"]) == 2
    assert depth(node, "q") == (2, 0)
    assert [message["redelivered"] for message in get(node, "q", 1)["result"]] == [True]
    assert len(get(node, "q", 1, "ack_requeue_false")["result"]) == 1
    refused = get(node, "q", 1, "ack_requeue_false")
    assert "the message has 5000 bytes" in refused["error"]
    assert depth(node, "q") == (1, 0)
    (cut,) = get(node, "q", 1, body_bytes=10)["result"]
    assert len(base64.b64decode(cut["body"])) == 10 and cut["size"] == 5000


def test_gets_of_what_is_not_there(node: Node) -> None:
    node.declare("q")
    node.settle()
    assert get(node, "q") == {"result": []}
    assert get(node, "q", ack_mode="nonsense")["kind"] == "invalid"
    assert get(node, "none")["kind"] == "not_found"
