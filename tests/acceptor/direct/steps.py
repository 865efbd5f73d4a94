"""Commands of users of the HTTP interface, given to a simulated node."""

from __future__ import annotations

import base64
from typing import Any

from acceptor.commands import carry_out
from penstock.amqp import methods_cy as methods
from penstock.amqp.properties import encode_properties
from tests.shard.steps import publish as publish_by_client
from tests.simulator.joined.node import Node, open_channel

Answers = list[dict[str, Any]]


def begin(node: Node, command: str, /, user: str = "guest", **arguments: Any) -> Answers:
    """Begin a command; return the list that its answer will be in."""
    answers: Answers = []
    whose = {"user": user, "name": "", "password": "", "host": "192.0.2.1", "vhost": "/"}
    carry_out(node.core(0), command, {**whose, **arguments}, answers.append)
    return answers


def done(node: Node, command: str, /, **arguments: Any) -> Any:
    answers = begin(node, command, **arguments)
    node.settle()
    (answer,) = answers
    return answer


def method(node: Node, method: str, /, user: str = "guest", **arguments: Any) -> Any:
    payload = base64.b64encode(methods.encode(method, **arguments)).decode()
    return done(node, "method", user=user, payload=payload)


def publishing(key: str, body: bytes = b"m", exchange: str = "", **properties: object) -> dict[str, Any]:
    return {
        "exchange": exchange,
        "routing_key": key,
        "properties": base64.b64encode(encode_properties(properties)).decode(),
        "body": base64.b64encode(body).decode(),
    }


def publish(node: Node, key: str, body: bytes = b"m", exchange: str = "", **properties: object) -> Any:
    return done(node, "publish", **publishing(key, body, exchange, **properties))


def get(node: Node, queue: str, count: int = 10, ack_mode: str = "ack_requeue_true", body_bytes: int = -1) -> Any:
    return done(node, "get", queue=queue, count=count, ack_mode=ack_mode, body_bytes=body_bytes)


def bodies(answer: Any) -> list[bytes]:
    return [base64.b64decode(message["body"]) for message in answer["result"]]


def depth(node: Node, name: str) -> tuple[int, int]:
    contents = node.state(name).contents
    return contents.ready, contents.unacked


def limit(node: Node, user: str, rights: str) -> None:
    node.router.command("user_add", name=user, password_hash="", tags=["management"])
    node.router.command("permission_set", user=user, vhost="/", configure=rights, write=rights, read=rights)
    node.settle()


def fill(node: Node, stop: int = 4) -> None:
    node.declare("q", **{"x-flow-stop-count": stop, "x-flow-resume-count": 2})
    node.settle()
    client = open_channel(node)
    publish_by_client(client, "q", *[b"%d" % number for number in range(stop + 1)])
    node.settle(rechecks=1)
    assert node.state("q").saturation.saturated


def pass_time(node: Node, seconds: float) -> None:
    node.now += seconds
    node.settle(rechecks=1)
