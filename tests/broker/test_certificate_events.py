"""Events of a real node about certificates that expire, for clients and for operators."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests import certificates
from tests.broker import Broker
from tests.broker.listeners import address_of, listening
from tests.broker.test_tls import connect
from tests.waiting import wait_for

pytestmark = pytest.mark.broker


def renew(own: Path, days: int) -> None:
    """Put a certificate that expires in so many days in the place of a listener's."""
    certificates.authority().server(["localhost"], timedelta(days=days), f"{days}-days.pem").replace(own)


def event_at(channel: BlockingChannel) -> dict[str, Any]:
    """Wait for an event in the queue `events`, and return its facts."""

    def came() -> dict[str, Any] | None:
        method, properties, body = channel.basic_get("events", auto_ack=True)
        if method is None:
            return None
        facts: dict[str, Any] = json.loads(body)
        assert properties.headers == facts
        assert (method.exchange, method.routing_key) == ("amq.flow", f"{facts['event']}./.public")
        return facts

    return wait_for(came, what="an event")


def test_a_certificate_that_expires_is_an_event_of_one_acceptor(tmp_path: Path) -> None:
    own = tmp_path / "server.pem"
    renew(own, 31)
    with (
        Broker(tmp_path, *listening(certificate=own), acceptors=2, shards=2) as node,
        connect(address_of(node)) as connection,
    ):
        channel = connection.channel()
        channel.queue_declare("events", exclusive=True)
        channel.queue_bind("events", "amq.flow", "#")
        events = []
        for days in (3, 2, -1):
            renew(own, days)
            events.append(event_at(channel))
        assert [each["event"] for each in events] == ["certificate_expiring"] * 2 + ["certificate_expired"]
        assert {each["certificate"] for each in events} == {str(own)}
        assert 86400 < events[1]["seconds"] < events[0]["seconds"] < 3 * 86400 + 1
        assert channel.queue_declare("events", passive=True).method.message_count == 0
        listed = wait_for(lambda: len(recorded(node)) == 3 and recorded(node), what="events on record")
        assert [each["event"] for each in listed] == [each["event"] for each in reversed(events)]
        assert "listener" in node.penstock("flow", "events").stdout


def test_a_node_that_starts_with_one_says_so(tmp_path: Path) -> None:
    own = tmp_path / "server.pem"
    renew(own, 31)
    with Broker(tmp_path, *listening(certificate=own)) as node:
        with connect(address_of(node)) as connection:
            channel = connection.channel()
            channel.queue_declare("events", durable=True)
            channel.queue_bind("events", "amq.flow", "certificate_expiring.#")
        node.stop()
        renew(own, 3)
        node.start()
        with connect(address_of(node)) as connection:
            assert event_at(connection.channel())["queue"] == "public"


def recorded(node: Broker) -> list[dict[str, Any]]:
    """Return the events that a node has on record, the latest first."""
    found: list[dict[str, Any]] = json.loads(node.penstock("flow", "events", "--json").stdout)
    return found
