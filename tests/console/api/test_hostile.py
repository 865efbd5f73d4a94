"""Bodies and queries that nobody sends by intent: refused with a reason, or taken, and never an error of the node."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests

from tests.management import TIMEOUT, Api

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(300)]

VALUES: tuple[Any, ...] = (
    None, True, -1, 2**70, 1e308, float("inf"), "", "\ud800", "\udcff", "\0", "(", "x" * 300, "x" * 100_000, [], {},
    [[[]]], {"a": {"b": [1]}},
)  # fmt: skip
GOOD = {
    "pattern": "^a", "definition": {"max-length": 5}, "priority": 1, "apply-to": "all", "configure": "", "write": "",
    "read": "", "exchange": "amq.topic", "password": "x", "tags": "", "value": 5,
}  # fmt: skip
POLICY = ("pattern", "definition", "priority", "apply-to")
FIELDS = {
    "vhosts/%FF": ("tracing", "description", "tags", "default_queue_type"),
    "users/hostile": ("password", "tags", "hashing_algorithm"),
    "users/%FF": ("password_hash", "tags", "hashing_algorithm"),
    "permissions/VHOST/guest": ("configure", "write", "read"),
    "topic-permissions/VHOST/guest": ("exchange", "write", "read"),
    "policies/VHOST/%FF": POLICY,
    "operator-policies/VHOST/p": POLICY,
    "vhost-limits/VHOST/max-queues": ("value",),
    "user-limits/guest/max-channels": ("value",),
}
BODIES = (b"", b"{", b"[]", b"null", b"5", b'"x"', b"[" * 100_000, b'{"a":' * 50_000, b"\xff")
SECTIONS = ("queues", "vhosts", "users", "bindings", "policies", "exchanges", "parameters", "permissions")
QUERIES = (
    "page=1e9", "page=99999999999999999999", "page=1&page_size=-1", "sort=a.b.c&sort_reverse=maybe", "columns=..",
    "columns=" + "a.b," * 2000, "name=(&use_regex=true", "name=" + "x" * 2000, "name=%FF&use_regex=true",
    "columns=message_stats,message_stats.publish", "columns=message_stats.publish,message_stats", "sort=arguments",
    "lengths_age=1&lengths_incr=86400", "lengths_age=86400&lengths_incr=1",
)  # fmt: skip


def send(api: Api, method: str, path: str, data: bytes = b"") -> requests.Response:
    """Send a request with any body; AssertionError if the answer is an error of the node."""
    url = f"http://127.0.0.1:{api.port}/api/{path}"
    answer = requests.request(method, url, data=data, auth=("guest", "guest"), timeout=TIMEOUT)
    assert answer.status_code < 500, (method, path, data[:200], answer.status_code, answer.text)
    if answer.status_code >= 400:
        assert answer.json()["reason"]
    return answer


@pytest.mark.parametrize("path", FIELDS)
def test_values_of_fields(api: Api, vhost: str, path: str) -> None:
    place = path.replace("VHOST", vhost)
    for field in FIELDS[path]:
        for value in VALUES:
            body = {name: GOOD[name] for name in FIELDS[path] if name in GOOD} | {field: value}
            send(api, "PUT", place, json.dumps(body).encode())
    for data in BODIES:
        send(api, "PUT", place, data)
    if path.startswith(("vhosts", "users", "user-limits")):
        send(api, "DELETE", place)


def test_definitions(api: Api, vhost: str) -> None:
    for value in VALUES:
        for section in SECTIONS:
            for content in (value, [value]):
                send(api, "POST", f"definitions/{vhost}", json.dumps({section: content}).encode())
        queue = {"name": "q", "arguments": {"a": value}}
        send(api, "POST", f"definitions/{vhost}", json.dumps({"queues": [queue]}).encode())
    for data in BODIES:
        send(api, "POST", f"definitions/{vhost}", data)
        send(api, "POST", "users/bulk-delete", data)


@pytest.mark.parametrize("query", QUERIES)
def test_queries(api: Api, vhost: str, query: str) -> None:
    for path in ("queues", "overview", f"bindings/{vhost}", "connections", "nodes", "vhosts"):
        send(api, "GET", f"{path}?{query}")


def test_names_that_are_not_utf8(api: Api, vhost: str) -> None:
    for path in (
        "queues/%FF", f"queues/{vhost}/%FF%00", f"bindings/{vhost}/e/%FF/q/%FF/%FF", "connections/%FF", "channels/%FF",
        "nodes/%FF", "users/%FF", f"exchanges/{vhost}/%FF", "definitions/%FF", "parameters/%FF/%FF/%FF",
        "health/checks/port-listener/%FF", "definitions?download=%FF%0d%0ax", "permissions/%FF/%FF",
    ):  # fmt: skip
        send(api, "GET", path)
    for path in ("vhosts/%FF", "users/%FF", "permissions/%FF/%FF", "policies/%FF/%FF", "connections/%FF"):
        assert send(api, "DELETE", path).status_code == 404
