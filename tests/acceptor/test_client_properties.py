"""What a connection keeps of what a client says of itself."""

from __future__ import annotations

from typing import Any

from acceptor.clients.traits import PROPERTIES_MOST, TEXT_MOST, kept, traits_of
from tests.joined import Node
from tests.raw import JAVA


def test_what_clients_say_is_kept() -> None:
    capabilities = {"consumer_cancel_notify": True, "basic.nack": True}
    said: dict[str, Any] = {**JAVA, "connection_name": "orders", "capabilities": capabilities, "threads": 3}
    assert kept(said) == said and traits_of(kept(said)) == traits_of(said)


def test_no_more_than_so_much_is_kept() -> None:
    fat: dict[str, Any] = {f"k{number}": "x" * 1000 for number in range(100)}
    found = kept(fat)
    assert len(found) == PROPERTIES_MOST and set(map(len, found.values())) == {TEXT_MOST}
    nested = {"table": fat, "list": ["x" * 1000] * 100, "capabilities": fat, "product": "p"}
    assert kept(nested) == {"product": "p", "capabilities": found}


def test_a_connection_keeps_no_more() -> None:
    with Node() as node:
        client = node.connect(properties={"product": "p", "note": "x" * 3000, "table": {"a": "x" * 3000}})
        found = {name: value for name, value in client.connection.properties.items() if name != "capabilities"}
        assert found == {"product": "p", "note": "x" * TEXT_MOST}
