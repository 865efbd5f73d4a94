"""The listeners of a node, by the protocols that they serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.api.serving import contexts, listeners
from penstock.node.node import Node
from penstock.settings import Settings


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with a further listener without TLS, and HTTP on two ports."""
    settings = Settings.from_resolved(
        {"acceptors": 1, "shards": 1, "data": str(tmp_path), "listeners": {"inner": {"port": 7}}}
    )
    http = {"api": ("::", 8), "metrics": ("::", 9)}
    return Node(
        0, tmp_path, tmp_path / "gauges", "127.0.0.1", 6, settings, 0, listeners={"inner": ("::", 7)}, http=http
    )


def test_each_listener_has_its_protocol(node: Node) -> None:
    found = [(each["protocol"], each["ip_address"], each["port"]) for each in listeners(node)]
    assert found == [
        ("amqp", "127.0.0.1", 6), ("amqp", "::", 7), ("http", "::", 8), ("http/prometheus", "::", 9),
    ]  # fmt: skip
    assert [each["port"] for each in contexts(node)] == ["8", "9"]
