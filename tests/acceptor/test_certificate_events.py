"""Events about certificates: of the first acceptor, once they reach each queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.certificate_events import CertificateEvents
from tests.simulator.joined.node import Node

FACTS: dict[str, Any] = {"event": "certificate_expiring", "vhost": "/", "queue": "public", "of": "listener"}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(acceptors=2, shards=2) as node:
        node.declare("events", shard=1)
        node.ask("queue_bind", queue="events", source="amq.flow", key="certificate_expiring./.public")
        node.settle()
        yield node


def test_the_first_acceptor_alone_publishes_them(node: Node) -> None:
    for index in (0, 1):
        CertificateEvents(node.core(index), lambda: [FACTS]).publish()
    node.settle()
    assert node.state("events").depth == 1
    assert [{"at": record["at"], **FACTS} for record in node.core(0).events.records] == node.core(0).events.records


def test_it_waits_for_all_shards(node: Node) -> None:
    asked: list[bool] = []

    def expiring() -> list[dict[str, Any]]:
        asked.append(True)
        return [FACTS]

    events = CertificateEvents(node.core(0), expiring)
    node.kill_shard(0)
    node.settle()
    events.publish()
    assert not asked
    node.start_shard(0)
    node.settle()
    events.publish()
    node.settle()
    assert asked == [True] and node.state("events").depth == 1
