"""KEDA's scaler of RabbitMQ by HTTP: one queue, and the queues that a pattern matches, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import pika
import pytest

from tests.console.api.replays.conftest import connected
from tests.console.api.replays.program import NOT_FOUND, Program
from tests.console.http.node import HttpBroker
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

VHOST = "ke/da"
V = quote_plus(VHOST)
QUEUES = {"work.eu": 4, "work.us": 3, "other": 2}


@pytest.fixture(scope="module")
def keda(node: HttpBroker) -> Iterator[Program]:
    keda = Program(node, {"user-agent": "Go-http-client/1.1", "accept-encoding": "gzip"})
    keda.call("PUT", f"vhosts/{V}", None, 201)
    yield keda
    keda.call("DELETE", f"vhosts/{V}", None, 204)


@pytest.fixture(scope="module")
def publisher(node: HttpBroker, keda: Program) -> Iterator[pika.BlockingConnection]:
    with connected(node, VHOST) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for name, count in QUEUES.items():
            channel.queue_declare(name)
            for _ in range(count):
                channel.basic_publish("", name, b"work")
        yield connection


def matching(keda: Program, pattern: str, vhost: str = V) -> Any:
    return keda.read(f"queues/{vhost}?page=1&use_regex=true&pagination=false&name={quote_plus(pattern)}&page_size=100")


def test_a_queue_has_its_length_and_rate(keda: Program, publisher: pika.BlockingConnection) -> None:
    path = f"queues/{V}/work.eu"
    found = wait_for(lambda: (found := keda.read(path)).get("messages") == 4 and found, interval=0.1)
    assert (found["name"], found["messages_unacknowledged"]) == ("work.eu", 0)
    assert isinstance(found["message_stats"]["publish_details"]["rate"], float)
    channel = publisher.channel()

    def rate() -> bool:
        channel.basic_publish("", "work.eu", b"more")
        return bool(keda.read(path)["message_stats"]["publish_details"]["rate"] > 0.0)

    wait_for(rate, interval=0.1)


def test_queues_are_found_by_a_pattern(keda: Program, publisher: pika.BlockingConnection) -> None:
    found = wait_for(
        lambda: (
            (found := matching(keda, "^work\\.")) and all(each.get("messages") for each in found["items"]) and found
        ),
        interval=0.1,
    )
    assert sorted(each["name"] for each in found["items"]) == ["work.eu", "work.us"]
    assert (found["filtered_count"], found["page"], found["page_count"], found["page_size"]) == (2, 1, 1, 100)
    assert all("rate" in each["message_stats"]["publish_details"] for each in found["items"])


def test_a_pattern_that_matches_nothing_finds_an_empty_page(keda: Program, publisher: pika.BlockingConnection) -> None:
    found = matching(keda, "^nothing$")
    assert (found["items"], found["filtered_count"], found["page"]) == ([], 0, 1)


def test_the_default_vhost_is_named_by_its_escape(keda: Program) -> None:
    assert matching(keda, ".*", quote("/", safe=""))["items"] == []


def test_a_queue_that_is_missing_is_an_error(keda: Program) -> None:
    assert keda.call("GET", f"queues/{V}/missing", None, 404).json == NOT_FOUND
    keda.call("GET", "queues/nowhere/missing", None, 404)
