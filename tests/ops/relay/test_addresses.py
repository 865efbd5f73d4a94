"""Addresses of brokers: where they lead, and refusals that quote no password."""

from __future__ import annotations

import pytest

from ops.errors import CommandError
from ops.relay.addresses import parameters, place_of, url_of_node


@pytest.mark.parametrize(
    ("host", "vhost", "shown"),
    [
        ("127.0.0.1", "/", "127.0.0.1:77/%2F"),
        ("0.0.0.0", "a/b", "127.0.0.1:77/a%2Fb"),
        ("::", "shop", "[::1]:77/shop"),
        ("localhost", "/", "127.0.0.1:77/%2F"),
    ],
)
def test_a_node_is_reached_as_guest_at_an_address_of_its_own(host: str, vhost: str, shown: str) -> None:
    found = parameters(url_of_node((host, 77), vhost), "penstock relay orders")
    assert str(place_of(found)) == shown
    assert (found.credentials.username, found.credentials.password) == ("guest", "guest")
    assert found.client_properties["connection_name"] == "penstock relay orders"


def test_a_node_without_a_listener_for_it_is_not_reached() -> None:
    with pytest.raises(CommandError, match="no listener without TLS: give a URL"):
        url_of_node(None, "/")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("amqp://ann:s3/cr3t@h", "its port is none; in a password / is %2F, @ is %40, : is %3A"),
        ("amqp://ann:s3cr3t@h:port", "its port is none"),
        ("amqp://ann@h", "it has a user without a password"),
        ("amqp://ann:s3cr3t@h:0", "its port is 0"),
        ("ann:s3cr3t@h", "begins with amqp:// or amqps://"),
    ],
)
def test_a_refusal_quotes_no_password(url: str, words: str) -> None:
    with pytest.raises(CommandError, match="AMQP URL") as refused:
        parameters(url)
    assert words in str(refused.value)
    assert "s3" not in str(refused.value) and "cr3t" not in str(refused.value)
