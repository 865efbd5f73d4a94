"""The books agree on each hold."""

from __future__ import annotations

from tests.acceptor.holding.producers import PARKING, PIKA, paused
from tests.simulator.joined.node import Node


def test_a_hold_is_in_every_book_from_stop_to_resume() -> None:
    with Node(flow={"parking_bytes": PARKING}) as node:
        books = node.core(0).holding.books
        client = paused(node, 9 * PARKING, PIKA)
        (channel,) = client.connection.channels.values()
        assert list(books.episodes.open) == list(books.ledger.since) == [channel]
        (incident,) = books.ledger.open.values()
        assert incident.actions == {"connection.blocked": 1, "paused": 1}
        assert [line["reason"] for line in node.logs if line["event"] == "stop"] == [incident.cause.text]
        client.lose()
        node.settle(1)
        assert not books.episodes.open and not books.ledger.since and not books.ledger.open
        assert len([line for line in node.logs if line["event"] == "resume"]) == 1
