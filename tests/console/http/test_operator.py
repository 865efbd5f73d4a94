"""The operator over the console's Unix socket: without a login, with all rights, and nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ops.operator_http import UnixConnection
from penstock.files.record_file import read_records, records_path
from tests.console.http.node import Answer, HttpBroker
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

NOBODY = 65534
REQUEST = "GET /api/whoami HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n"
INTRUDER = f"""
import os, socket
os.setuid({NOBODY})
client = socket.socket(socket.AF_UNIX)
client.connect("http")
try:
    client.sendall(b"{REQUEST}")
    print(len(client.recv(100)))
except ConnectionError:
    print(0)
"""
"""A process of another user in the runtime directory, which prints the number of bytes that it is answered."""


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpBroker]:
    """Return a node of this module's own, without users."""
    with HttpBroker(tmp_path_factory.mktemp("operator")) as broker:
        broker.call("user_delete", name="guest")
        yield broker


def request(node: HttpBroker, method: str, path: str, content: Any = None) -> Answer:
    """Send a request over the Unix socket."""
    connection = UnixConnection(node.unix_socket)
    try:
        connection.request(method, f"/api/{path}", None if content is None else json.dumps(content))
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.headers), answer.read())
    finally:
        connection.close()


def records(node: HttpBroker) -> list[dict[str, Any]]:
    """Return the console's audit records."""
    return list(read_records(records_path(node.directory / "data", "audit", "console", 0)))


def test_an_operator_needs_no_user(ours: HttpBroker) -> None:
    found = request(ours, "GET", "whoami").json
    assert found["tags"] == ["administrator"] and not found["is_internal_user"]
    assert request(ours, "PUT", "vhosts/v").status == 201
    assert request(ours, "PUT", "queues/v/q", {"durable": True}).status == 201
    message = {"properties": {}, "routing_key": "q", "payload": "hi", "payload_encoding": "string"}
    assert request(ours, "POST", "exchanges/v/amq.default/publish", message).json == {"routed": True}
    asked = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert [each["payload"] for each in request(ours, "POST", "queues/v/q/get", asked).json] == ["hi"]
    assert [each["name"] for each in request(ours, "GET", "queues/v").json] == ["q"]
    assert request(ours, "GET", "permissions").json == []
    assert request(ours, "DELETE", "vhosts/v").status == 204
    assert request(ours, "PUT", "queues/v/q", {}).status == 404


def test_the_audit_log_has_the_process_and_its_user(ours: HttpBroker) -> None:
    assert request(ours, "PUT", "users/bob", {"password": "secret", "tags": ""}).status == 201
    assert request(ours, "PUT", "users/bob", {"password": "secret", "tags": "none", "password_hash": 1}).status == 400
    (record,) = [each for each in records(ours) if each["arguments"].get("name") == "bob"]
    assert (record["who"]["uid"], record["from"]["pid"]) == (os.getuid(), os.getpid())
    assert record["outcome"] == "done" and "secret" not in json.dumps(record)
    assert request(ours, "DELETE", "users/bob").status == 204


def test_a_stop_is_the_operators(ours: HttpBroker) -> None:
    assert request(ours, "PUT", "queues/%2F/stopped", {}).status == 201
    begun = request(ours, "POST", "flow/stops", {"vhost": "/", "queue": "stopped", "reason": "maintenance"})
    assert begun.status in (200, 201), begun.body
    (stop,) = request(ours, "GET", "flow/stops").json
    assert (stop["author"], stop["reason"]) == (request(ours, "GET", "whoami").json["name"], "maintenance")


def test_a_console_that_was_killed_serves_again(ours: HttpBroker) -> None:
    pid = ours.kill("console")
    ours.wait_replaced("console", pid)
    wait_for(lambda: answers(ours), what="an answer of the new console")


def answers(node: HttpBroker) -> bool:
    try:
        return request(node, "GET", "whoami").status == 200
    except OSError:
        return False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_nobody_else_is_served(ours: HttpBroker) -> None:
    """Even where the files would let them in."""
    place = ours.unix_socket
    modes = {place: 0o600, place.parent: 0o700}
    assert {each: each.stat().st_mode & 0o777 for each in modes} == modes
    for each in modes:
        each.chmod(0o777)
    try:
        done = subprocess.run(
            [sys.executable, "-c", INTRUDER], cwd=place.parent, capture_output=True, text=True, check=False
        )
    finally:
        for each, mode in modes.items():
            each.chmod(mode)
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert "another user was turned away" in ours.log
    refused = records(ours)[-1]
    assert (refused["who"]["uid"], refused["command"]) == (NOBODY, "")
