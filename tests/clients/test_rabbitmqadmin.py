"""`rabbitmqadmin`, as Debian has it: what it lists, declares, exports and imports."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker

from tests.broker import Broker
from tests.management import Api

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("rabbitmqadmin") is None, reason="rabbitmqadmin is not installed"),
]

LISTED = (
    "users", "vhosts", "connections", "channels", "consumers", "exchanges", "queues", "bindings", "permissions",
    "policies", "operator_policies", "parameters", "nodes", "vhost_limits",
)  # fmt: skip


class Admin:
    """The program, used against one node."""

    def __init__(self, port: int) -> None:
        self.port = port

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["rabbitmqadmin", "-P", str(self.port), *arguments], capture_output=True, text=True, timeout=60, check=False
        )

    def done(self, *arguments: str) -> str:
        found = self.run(*arguments)
        assert found.returncode == 0, (arguments, found.stdout, found.stderr)
        return found.stdout

    def names(self, *arguments: str) -> list[str]:
        return sorted(each["name"] for each in json.loads(self.done("-f", "raw_json", "list", *arguments)))


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Admin]:
    """A node with a queue, a consumer and a policy."""
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(tmp_path, "http.port=0", "http.metrics=false"))
        api = Api.of(tmp_path)
        api.put("policies/%2F/p", {"pattern": "^q", "definition": {"max-length": 5}})
        connection = pika.BlockingConnection(pika.ConnectionParameters(*broker.address))
        stack.enter_context(suppress(ConnectionClosedByBroker))  # where a test has it closed
        stack.callback(lambda: connection.is_open and connection.close())
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.queue_bind("q", "amq.topic", "a.#")
        channel.basic_consume("q", lambda *_: None)
        yield Admin(api.port)


def test_everything_is_listed_and_shown(admin: Admin) -> None:
    for kind in LISTED:
        admin.done("list", kind)
        admin.done("-f", "long", "-d", "3", "list", kind)
    assert "penstock@" in admin.done("show", "overview")
    assert admin.names("queues") == ["q"]


def test_vhosts_users_and_policies_are_declared_exported_and_imported(admin: Admin, tmp_path: Path) -> None:
    eu = ("-V", "eu")
    admin.done("declare", "vhost", "name=eu")
    admin.done("declare", "user", "name=ann", "password=secret", "tags=management")
    admin.done("declare", "permission", "vhost=eu", "user=ann", "configure=.*", "write=.*", "read=.*")
    admin.done(*eu, "declare", "policy", "name=p", "pattern=^q", 'definition={"max-length":7}', "apply-to=queues")
    admin.done(*eu, "declare", "operator_policy", "name=o", "pattern=^q", 'definition={"max-length":9}')
    admin.done("declare", "vhost_limit", "vhost=eu", "name=max-queues", "value=7")
    refused = admin.run("declare", "parameter", "component=shovel", "name=x", "value={}")
    assert refused.returncode == 1 and "has no meaning here" in refused.stdout + refused.stderr
    file = str(tmp_path / "definitions.json")
    admin.done("export", file)
    admin.done("delete", "vhost", "name=eu")
    admin.done("delete", "user", "name=ann")
    assert admin.names("vhosts") == ["/"]
    admin.done("import", file)
    assert admin.names("vhosts") == ["/", "eu"] and admin.names("users") == ["ann", "guest"]
    assert admin.names("operator_policies") == ["o"]
    assert "eu" in admin.done("-u", "ann", "-p", "secret", "list", "vhosts")
    (name,) = admin.names("connections")
    admin.done("close", "connection", f"name={name}")
    assert admin.names("connections") == []
