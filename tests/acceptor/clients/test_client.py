"""A client's properties: as text, as flags, and as a name for log lines."""

from __future__ import annotations

from typing import Any

import pytest

from acceptor.clients.client import Client
from acceptor.clients.traits import Traits


@pytest.mark.parametrize(
    ("value", "text"), [("orders", "orders"), ("", None), (None, None), (7, "7"), ("x" * 300, "x" * 255)]
)
def test_a_property_is_a_text_of_bounded_length_or_missing(value: Any, text: str | None) -> None:
    client = Client("", "")
    client.identify({} if value is None else {"product": value})
    assert client.said("product") == text


@pytest.mark.parametrize(
    ("properties", "declared"),
    [
        ({}, False),
        ({"capabilities": "basic.nack"}, False),
        ({"capabilities": {}}, False),
        ({"capabilities": {"basic.nack": False}}, False),
        ({"capabilities": {"basic.nack": 1}}, False),
        ({"capabilities": {"basic.nack": True}}, True),
    ],
)
def test_only_a_true_flag_declares_a_capability(properties: dict[str, Any], declared: bool) -> None:
    client = Client("", "")
    client.identify(properties)
    assert client.has_capability("basic.nack") is declared


def test_a_client_is_named_by_product_version_and_connection() -> None:
    client = Client("127.0.0.1:49152", "127.0.0.1")
    assert client.name == "" and client.traits == Traits()
    client.identify({"product": "Bunny", "version": "2.23", "connection_name": "", "platform": "ruby"})
    assert client.name == "Bunny 2.23" and client.traits.impatient
    client.identify({"product": "p" * 300})
    assert client.name == "p" * 255
