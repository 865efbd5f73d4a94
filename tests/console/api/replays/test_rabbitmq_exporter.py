"""kbudde's rabbitmq_exporter: all its endpoints, in the order of a scrape.

It prefers BERT, takes the JSON that it is answered with, and asks for lists that are not sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.console.api.replays.conftest import connected
from tests.console.api.replays.program import Program
from tests.console.http.node import HttpBroker

pytestmark = pytest.mark.broker

ACCEPT = "application/bert, application/json;q=0.1"


@pytest.fixture(scope="module")
def exporter(node: HttpBroker) -> Iterator[Program]:
    exporter = Program(node, {"user-agent": "Go-http-client/1.1", "accept": ACCEPT, "accept-encoding": "gzip"})
    exporter.call("PUT", "vhosts/exporter", None, 201)
    yield exporter
    exporter.call("DELETE", "vhosts/exporter", None, 204)


def scraped(exporter: Program, endpoint: str) -> Any:
    answer = exporter.call("GET", endpoint, None, 200)
    assert answer.headers["content-type"].startswith("application/json")
    return answer.json


def numbers(found: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """Return the numbers in an object by their paths, as the exporter reads objects."""
    flat: dict[str, float] = {}
    for name, value in found.items():
        if isinstance(value, dict):
            flat |= numbers(value, f"{prefix}{name}.")
        elif isinstance(value, int | float):
            flat[f"{prefix}{name}"] = value
    return flat


def test_the_overview(exporter: Program) -> None:
    found = scraped(exporter, "overview?sort=")
    assert all(isinstance(found[name], str) for name in ("rabbitmq_version", "erlang_version", "cluster_name", "node"))
    assert {
        "object_totals.channels", "object_totals.connections", "object_totals.consumers", "object_totals.queues",
        "object_totals.exchanges", "queue_totals.messages_ready", "queue_totals.messages_unacknowledged",
        "queue_totals.messages", "message_stats.publish", "message_stats.confirm", "message_stats.deliver",
        "message_stats.deliver_no_ack", "message_stats.get", "message_stats.get_no_ack", "message_stats.redeliver",
        "message_stats.ack", "message_stats.return_unroutable", "message_stats.drop_unroutable",
        "churn_rates.connection_created", "churn_rates.queue_declared",
    } <= numbers(found).keys()  # fmt: skip


def test_the_nodes(exporter: Program) -> None:
    (found,) = scraped(exporter, "nodes?sort=")
    assert found["name"] == scraped(exporter, "overview")["node"] and found["partitions"] == []
    assert (found["running"], found["mem_alarm"], found["disk_free_alarm"]) == (True, False, False)
    assert {
        "uptime", "fd_used", "fd_total", "sockets_used", "sockets_total", "mem_used", "mem_limit", "disk_free",
        "disk_free_limit",
    } <= numbers(found).keys()  # fmt: skip


def test_queues_exchanges_and_connections(node: HttpBroker, exporter: Program) -> None:
    with connected(node, "exporter") as connection:
        connection.channel().queue_declare("q", durable=True)
        (queue,) = [each for each in scraped(exporter, "queues?sort=") if each["vhost"] == "exporter"]
        assert (queue["name"], queue["durable"], queue["policy"]) == ("q", True, None)
        assert {
            "messages_ready", "messages_unacknowledged", "messages", "message_bytes", "message_bytes_ready",
            "consumers", "memory", "message_stats.publish", "message_stats.deliver_get",
        } <= numbers(queue).keys()  # fmt: skip
        exchanges = [each for each in scraped(exporter, "exchanges?sort=") if each["vhost"] == "exporter"]
        assert {"", "amq.direct"} <= {each["name"] for each in exchanges}
        (found,) = [each for each in scraped(exporter, "connections?sort=") if each["vhost"] == "exporter"]
        assert found["state"] == "running" and {"node", "peer_host", "user"} <= found.keys()
        assert numbers(found)["channels"] == 1 and found["recv_oct"] > 0 and found["send_oct"] > 0


def test_aliveness(exporter: Program) -> None:
    assert scraped(exporter, "aliveness-test/%2F") == {"status": "ok"}


def test_shovels_are_not_there_without_their_plugin(exporter: Program) -> None:
    exporter.gone("shovels?sort=")
