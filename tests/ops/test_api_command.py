"""`penstock api`: requests to a real node over its Unix socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.console.http.node import HttpBroker

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpBroker]:
    with HttpBroker(tmp_path_factory.mktemp("api")) as broker:
        yield broker


def test_requests_are_answered_as_other_commands_print(node: HttpBroker, tmp_path: Path) -> None:
    made = node.penstock("api", "queues/%2F/q", "-X", "PUT", "--body", '{"arguments": {"x-max-length": 5}}')
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
    file = tmp_path / "binding.json"
    file.write_text('{"routing_key": "a"}')
    assert node.penstock("api", "bindings/%2F/e/amq.topic/q/q", "--body", f"@{file}").returncode == 0
    assert (
        node.penstock("api", "bindings/%2F/e/amq.topic/q/q", "-b", "@-", given='{"routing_key": "b"}').returncode == 0
    )
    asked = node.penstock("api", "/api/bindings/%2F/e/amq.topic/q/q?columns=routing_key&sort=routing_key")
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.startswith('[\n  {\n    "routing_key": "a"\n  },')
    assert json.loads(asked.stdout) == [{"routing_key": "a"}, {"routing_key": "b"}]
    page = node.penstock("api", "/metrics")
    assert page.returncode == 0 and "# TYPE rabbitmq_queues gauge" in page.stdout


def test_a_refusal_is_one_line(node: HttpBroker, tmp_path: Path) -> None:
    refused = {
        ("queues/%2F/none",): "404 Not Found",
        ("flow/stops", "--body", "{}"): "400 Bad Request: give all, or any of vhost, exchange, key, queue, user and"
        " connection",
        ("overview", "-X", "DELETE"): "405 Method Not Allowed",
        ("overview", "--body", f"@{tmp_path / 'none'}"): f"cannot read {tmp_path / 'none'}: No such file or directory",
    }
    for words, reason in refused.items():
        done = node.penstock("api", *words)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"penstock: {reason}\n")


def test_a_node_without_an_interface_says_so(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        refused = broker.penstock("api", "overview")
        assert refused.returncode == 2 and "has no HTTP interface (http.enabled)" in refused.stderr
    stopped = broker.penstock("api", "overview")
    assert stopped.returncode == 2 and "no node runs on" in stopped.stderr
