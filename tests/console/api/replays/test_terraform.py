"""Terraform's provider of RabbitMQ: resources made, read, changed, applied again, and destroyed.

It calls through rabbit-hole, which escapes each segment of a path, closes the connection behind each request, and
expects 201 or 204 of a change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

import pytest

from tests.console.api.replays.program import Program
from tests.console.http.node import HttpBroker

pytestmark = pytest.mark.broker

HEADERS = {"user-agent": "Go-http-client/1.1", "connection": "close", "accept-encoding": "gzip"}
VHOST = "terra/form"
V = quote(VHOST, safe="")


@pytest.fixture(scope="module")
def terraform(node: HttpBroker) -> Program:
    return Program(node, HEADERS)


@pytest.fixture
def vhost(terraform: Program) -> Iterator[str]:
    """A vhost whose name has to be escaped."""
    apply(terraform, f"vhosts/{V}", {"description": "", "tags": [], "tracing": False})
    yield V
    destroy(terraform, f"vhosts/{V}")


def apply(terraform: Program, path: str, body: Any) -> None:
    """Make something, and apply it a second time, which changes nothing."""
    terraform.call("PUT", path, body, 201)
    before = terraform.read(path)
    terraform.call("PUT", path, body, 201, 204)
    assert steady(terraform.read(path)) == steady(before)


def steady(found: Any) -> Any:
    """Return the attributes of a resource, without numbers that change by themselves."""
    if isinstance(found, list):
        return [steady(each) for each in found]
    kept = ("name", "description", "tags", "tracing", "type", "durable", "auto_delete", "internal", "arguments",
            "pattern", "definition", "priority", "apply-to", "configure", "write", "read", "exchange", "value", "user",
            "vhost")  # fmt: skip
    return {name: found[name] for name in kept if name in found}


def destroy(terraform: Program, path: str) -> None:
    """Delete something; a refresh finds it gone, and so does a second delete."""
    terraform.call("DELETE", path, None, 204)
    terraform.gone(path)
    terraform.call("DELETE", path, None, 404)


def test_a_vhost(terraform: Program) -> None:
    path = f"vhosts/{quote('staging/eu', safe='')}"
    terraform.gone(path)
    wanted = {"description": "first", "tags": ["a", "b"], "tracing": False}
    apply(terraform, path, wanted)
    found = terraform.read(path)
    assert found["name"] == "staging/eu" and {name: found[name] for name in wanted} == wanted
    changed = {"description": "second", "tags": [], "tracing": False}
    terraform.call("PUT", path, {**changed, "default_queue_type": "classic"}, 204)
    found = terraform.read(path)
    assert {name: found[name] for name in changed} == changed
    limits = f"vhost-limits/{quote('staging/eu', safe='')}"
    for limit, value in ("max-connections", 100), ("max-queues", 50):
        terraform.call("PUT", f"{limits}/{limit}", {"value": value}, 201, 204)
    assert terraform.read(limits) == [{"vhost": "staging/eu", "value": {"max-connections": 100, "max-queues": 50}}]
    terraform.call("DELETE", f"{limits}/max-queues", None, 204)
    assert terraform.read(limits)[0]["value"] == {"max-connections": 100}
    destroy(terraform, path)


def test_a_user(terraform: Program) -> None:
    path = f"users/{quote('terra user', safe='')}"
    wanted = {"name": "terra user", "tags": "monitoring,management", "password": "first"}
    apply(terraform, path, wanted)
    found = terraform.read(path)
    assert found["name"] == "terra user" and sorted(found["tags"]) == ["management", "monitoring"]
    as_itself = Program(terraform.node, HEADERS, ("terra user", "first"))
    assert as_itself.read("whoami")["name"] == "terra user"
    terraform.call("PUT", path, {"name": "terra user", "tags": "administrator", "password": "second"}, 204)
    as_itself.user = ("terra user", "second")
    assert as_itself.read("whoami")["tags"] == ["administrator"]
    hashed = terraform.read(path)
    settings = {name: hashed[name] for name in ("password_hash", "hashing_algorithm")}
    terraform.call("PUT", path, {"name": "terra user", "tags": "", **settings}, 204)
    assert terraform.read(path)["tags"] == []
    destroy(terraform, path)


def test_permissions_of_a_user(terraform: Program, vhost: str) -> None:
    apply(terraform, "users/terra", {"name": "terra", "tags": "", "password": "secret"})
    path = f"permissions/{vhost}/terra"
    terraform.gone(path)
    rights = {"configure": "", "write": "^terra\\..*", "read": ".*"}
    apply(terraform, path, rights)
    assert terraform.read(path) == {"user": "terra", "vhost": VHOST, **rights}
    topics = f"topic-permissions/{vhost}/terra"
    on_topic = {"exchange": "amq.topic", "write": "^eu\\.", "read": ".*"}
    apply(terraform, topics, on_topic)
    assert terraform.read(topics) == [{"user": "terra", "vhost": VHOST, **on_topic}]
    terraform.call("DELETE", f"{topics}/amq.topic", None, 204)
    terraform.gone(topics)
    destroy(terraform, path)
    destroy(terraform, "users/terra")


def test_an_exchange(terraform: Program, vhost: str) -> None:
    path = f"exchanges/{vhost}/{quote('orders in', safe='')}"
    apply(terraform, path, {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "amq.fanout"}})
    found = terraform.read(path)
    assert (found["type"], found["durable"], found["auto_delete"]) == ("topic", True, False)
    assert found["arguments"] == {"alternate-exchange": "amq.fanout"}
    destroy(terraform, path)


def test_a_queue(terraform: Program, vhost: str) -> None:
    """Its `arguments_json` has numbers, texts and what only its user understands."""
    path = f"queues/{vhost}/{quote('orders/eu', safe='')}"
    arguments = {
        "x-message-ttl": 5000, "x-max-length": 10, "x-dead-letter-exchange": "", "x-queue-type": "classic",
        "x-dead-letter-routing-key": "dead", "x-own": {"nested": [1, True, "text"]},
    }  # fmt: skip
    apply(terraform, path, {"type": "classic", "durable": True, "arguments": arguments})
    found = terraform.read(path)
    assert (found["durable"], found["auto_delete"], found["type"]) == (True, False, "classic")
    assert found["arguments"] == arguments
    other = {"type": "classic", "durable": True, "arguments": {**arguments, "x-max-length": 11}}
    refused = terraform.call("PUT", path, other, 400).json
    assert refused["error"] == "bad_request" and "inequivalent arg 'x-max-length'" in refused["reason"]
    destroy(terraform, path)


@pytest.mark.parametrize("key", ["", "#", "eu.orders/new", "100%", "a b"])
@pytest.mark.parametrize(("kind", "letter"), [("queue", "q"), ("exchange", "e")])
@pytest.mark.parametrize("arguments", [{}, {"x-match": "any", "n": 1}], ids=["plain", "arguments"])
def test_a_binding(terraform: Program, vhost: str, kind: str, letter: str, key: str, arguments: dict[str, Any]) -> None:
    for path in f"queues/{vhost}/dest", f"exchanges/{vhost}/dest":
        terraform.call("PUT", path, {"type": "topic" if path[0] == "e" else "", "durable": True}, 201)
    path = f"bindings/{vhost}/e/amq.topic/{letter}/dest"
    body = {
        "source": "amq.topic", "vhost": VHOST, "destination": "dest", "destination_type": kind, "routing_key": key,
        "arguments": arguments, "properties_key": "",
    }  # fmt: skip
    location = terraform.call("POST", path, body, 201).headers["location"]
    properties_key = unquote(location.split("/")[-1])
    terraform.call("POST", path, body, 201)
    one = f"{path}/{quote(properties_key, safe='')}"
    expected = {name: value for name, value in body.items() if name != "properties_key"}
    found = terraform.read(one)
    assert {name: found[name] for name in expected} == expected and found["properties_key"] == properties_key
    of_vhost = [each for each in terraform.read(f"bindings/{vhost}") if each["source"] == "amq.topic"]
    assert [each["properties_key"] for each in of_vhost] == [properties_key]
    destroy(terraform, one)


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_a_policy(terraform: Program, vhost: str, kind: str) -> None:
    path = f"{kind}/{vhost}/{quote('keep short', safe='')}"
    wanted = {
        "vhost": VHOST, "name": "keep short", "pattern": "^terra\\.", "apply-to": "queues", "priority": 3,
        "definition": {"max-length": 100},
    }  # fmt: skip
    apply(terraform, path, wanted)
    assert terraform.read(path) == wanted
    changed = {**wanted, "priority": 0, "definition": {"max-length": 200, "message-ttl": 60000}}
    terraform.call("PUT", path, changed, 204)
    assert terraform.read(path) == changed
    destroy(terraform, path)
