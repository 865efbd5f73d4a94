"""The traits of a client, found by its client-properties, and the properties that a connection keeps."""

from __future__ import annotations

from typing import Any

import pytest

from acceptor.clients.traits import PROPERTIES_MOST, TABLE, TEXT_MOST, Traits, kept, traits_of
from tests.raw import JAVA
from tests.simulator.joined.node import Node


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
        found = {name: value for name, value in client.connection.client.properties.items() if name != "capabilities"}
        assert found == {"product": "p", "note": "x" * TEXT_MOST}


def test_every_row_of_the_table_is_found_by_its_own_properties() -> None:
    for row in TABLE:
        assert traits_of({"product": row.product, "platform": row.platform}) is row.traits


@pytest.mark.parametrize(
    ("platform", "honours"), [("Java", True), ("Java 21.0.2", True), (".NET", True), ("Python", False), ("", False)]
)
def test_a_platform_is_known_by_its_beginning(platform: str, honours: bool) -> None:
    assert traits_of({"product": "RabbitMQ", "platform": platform}).honours_flow is honours


@pytest.mark.parametrize("properties", [{}, {"product": "?"}, {"product": 7, "platform": None}, {"platform": "Java"}])
def test_an_unknown_client_is_treated_with_care(properties: dict[str, Any]) -> None:
    assert traits_of(properties) == Traits()


def test_a_client_that_gives_up_is_dripped_to_more_often_than_others() -> None:
    impatient = {row.traits.drip_seconds for row in TABLE if row.traits.impatient and not row.traits.drip_heartbeats}
    assert max(impatient) < Traits().drip_seconds < 60


def test_a_connection_has_the_traits_and_the_receive_buffer_of_its_client() -> None:
    with Node() as node:
        client = node.connect(properties={"product": "py-amqp"})
        assert client.connection.client.traits.qos_of_running
        assert client.socket.receive_buffer == client.connection.client.traits.receive_buffer > 0
        assert node.connect().socket.receive_buffer == 0
