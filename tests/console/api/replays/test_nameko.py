"""Nameko's helpers for tests, and pyrabbit, of which they are a part: a vhost a test, its connections closed behind
it, messages published and got.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pika.exceptions
import pytest

from tests.console.api.replays.conftest import connected
from tests.console.api.replays.program import Program
from tests.console.http.node import HttpBroker
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

HEADERS = {"user-agent": "python-requests/2.32.0", "accept": "*/*", "content-type": "application/json"}
VHOST = "nameko_test_abcdef"


@pytest.fixture(scope="module")
def nameko(node: HttpBroker) -> Program:
    return Program(node, HEADERS)


@pytest.fixture
def vhost(nameko: Program) -> Iterator[str]:
    """A vhost made anew, as `reset_vhost` does it."""
    nameko.call("DELETE", f"vhosts/{VHOST}", None, 204, 404)
    nameko.call("PUT", f"vhosts/{VHOST}", None, 201)
    rights = {"configure": ".*", "read": ".*", "write": ".*"}
    nameko.call("PUT", f"permissions/{VHOST}/guest", rights, 201, 204)
    yield VHOST
    nameko.call("DELETE", f"vhosts/{VHOST}", None, 204)
    assert VHOST not in [each["name"] for each in nameko.read("vhosts")]


def test_a_client_finds_out_who_it_is(nameko: Program) -> None:
    assert nameko.read("whoami")["name"] == "guest"
    assert nameko.read("overview")["management_version"]
    assert nameko.read("aliveness-test/%2F")["status"] == "ok"


def test_connections_are_closed_behind_a_test(node: HttpBroker, nameko: Program, vhost: str) -> None:
    with connected(node, vhost) as connection:
        found = wait_for(lambda: [each for each in nameko.read("connections") if each["vhost"] == vhost])
        name = quote(found[0]["name"], safe="")
        assert nameko.read(f"connections/{name}")["name"] == found[0]["name"]
        nameko.call("DELETE", f"connections/{name}", None, 204, **{"x-reason": "the test is over"})
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="the test is over"):
            wait_for(lambda: connection.process_data_events(0.01))
        wait_for(lambda: not [each for each in nameko.read("connections") if each["vhost"] == vhost])
        nameko.gone(f"connections/{name}")


def test_messages_are_published_and_got(nameko: Program, vhost: str) -> None:
    exchange = {"type": "topic", "auto_delete": False, "durable": True, "internal": False, "arguments": {}}
    nameko.call("PUT", f"exchanges/{vhost}/nameko-rpc", exchange, 201)
    queue = {"auto_delete": False, "durable": True, "arguments": {}}
    nameko.call("PUT", f"queues/{vhost}/rpc-service", queue, 201)
    binding = {"routing_key": "service.*", "arguments": {}}
    nameko.call("POST", f"bindings/{vhost}/e/nameko-rpc/q/rpc-service", binding, 201)
    assert [each["routing_key"] for each in nameko.read(f"queues/{vhost}/rpc-service/bindings")] == [
        "rpc-service", "service.*"
    ]  # fmt: skip
    message = {
        "routing_key": "service.method", "payload": '{"args": []}', "payload_encoding": "string",
        "properties": {"content_type": "application/json", "headers": {"nameko.language": "en"}, "delivery_mode": 2},
    }  # fmt: skip
    published = nameko.call("POST", f"exchanges/{vhost}/nameko-rpc/publish", message, 200)
    assert published.json == {"routed": True}
    elsewhere = {**message, "routing_key": "other"}
    assert nameko.call("POST", f"exchanges/{vhost}/nameko-rpc/publish", elsewhere, 200).json == {"routed": False}
    wanted = {"count": 1, "requeue": True, "ackmode": "ack_requeue_true", "encoding": "auto"}
    (got,) = nameko.call("POST", f"queues/{vhost}/rpc-service/get", wanted, 200).json
    assert got["payload"] == '{"args": []}' and got["payload_encoding"] == "string" and not got["redelivered"]
    assert (got["exchange"], got["routing_key"], got["message_count"]) == ("nameko-rpc", "service.method", 0)
    assert got["properties"]["headers"] == {"nameko.language": "en"}
    wanted |= {"requeue": False, "ackmode": "ack_requeue_false"}
    (again,) = nameko.call("POST", f"queues/{vhost}/rpc-service/get", wanted, 200).json
    assert again["redelivered"] is True
    assert nameko.call("POST", f"queues/{vhost}/rpc-service/get", wanted, 200).json == []


def test_queues_are_listed_purged_and_deleted(nameko: Program, vhost: str) -> None:
    nameko.call("PUT", f"queues/{vhost}/q", {"auto_delete": False, "durable": True, "arguments": {}}, 201)
    body = {"routing_key": "q", "payload": "x", "payload_encoding": "string", "properties": {}}
    assert nameko.call("POST", f"exchanges/{vhost}/amq.default/publish", body, 200).json == {"routed": True}
    wait_for(lambda: nameko.read(f"queues/{vhost}/q").get("messages") == 1, interval=0.1)
    nameko.call("DELETE", f"queues/{vhost}/q/contents", None, 204)
    wait_for(lambda: nameko.read(f"queues/{vhost}/q").get("messages") == 0, interval=0.1)
    nameko.call("DELETE", f"queues/{vhost}/q", None, 204)
    assert nameko.read(f"queues/{vhost}") == []
