"""A monitoring user changes nothing: every request that writes is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.console.http.node import HttpBroker
from tests.raw import Client

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

READER = ("reader", "reader")
WRITES = ("post", "put", "delete")
ALLOWED = {("post", "/api/session"), ("delete", "/api/session")}
"""A watcher logs in and out."""
CONTENTS: dict[str, dict[str, Any]] = {
    "/move": {"shard": 0},
    "/redrive": {"count": 1},
    "/move-messages": {"target": "elsewhere"},
    "/limits/try": {"vhost": "/", "name": "p", "pattern": ".*", "definition": {"max-length": 1}, "apply-to": "queues"},
    "/{name}/publish": {"routing_key": "watched", "payload": "x", "payload_encoding": "string", "properties": {}},
    "/{name}/get": {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"},
    "/bulk-delete": {"users": ["guest"]},
    "policies/{vhost}/{name}": {"pattern": ".*", "definition": {"max-length": 1}},
    "/{limit}": {"value": 1},
    "/rebalance/plan": {"window": 1},
    "/rebalance/apply": {"plan": "20261130-120000-01234567"},
    "/users/{name}": {"password": "x", "tags": ""},
    "/stops": {"all": True},
    "/stops/try": {"all": True},
}


def writes(node: HttpBroker) -> list[tuple[str, str]]:
    found: dict[str, dict[str, Any]] = node.get("/api/openapi.json").json["paths"]
    every = [(method, path) for path, methods in found.items() for method in methods if method in WRITES]
    return [each for each in every if each not in ALLOWED]


def test_every_write_is_refused(node: HttpBroker) -> None:
    with Client.connect(node.address) as client:
        client.channel().call("queue.declare", queue="watched", durable=True)
        made = node.request("POST", "/api/flow/stops", {"queue": "watched"}).json
        names = {"vhost": "%2F", "name": "watched", "queue": "watched", "user": "guest", "number": str(made["number"])}
        before = node.get("/api/definitions").json
        statuses = {}
        for method, path in writes(node):
            content = next((content for end, content in CONTENTS.items() if path.endswith(end)), {})
            place = re.sub(r"\{(\w+)(?::path)?\}", lambda match: names.get(match[1], "1"), path)
            place += f"?numbers={made['number']}" if (method, path) == ("delete", "/api/flow/stops") else ""
            statuses[method, path] = node.request(method, place, content, user=READER).status
        assert len(statuses) > 40
        assert {each: status for each, status in statuses.items() if status not in (401, 404)} == {}
        assert list(statuses.values()).count(404) < 8, "what is not there is not written either"
        assert node.get("/api/definitions").json == before
        assert [each["number"] for each in node.get("/api/flow/stops").json] == [made["number"]]
        assert node.request("DELETE", f"/api/flow/stops/{made['number']}").status == 200
        client.channel().call("queue.delete", queue="watched")
