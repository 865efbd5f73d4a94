"""What the settings of a relay mean: both sides, and the ways of messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ops.errors import CommandError
from ops.relay.configured import places_of, router_of, sides_of
from ops.relay.delivery import Delivery
from penstock.client.unconfirmed import Destination
from penstock.node.node import Node
from penstock.settings import Settings
from penstock.settings.listeners import ListenerSettings
from penstock.settings.relays import RelaySettings


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(1, tmp_path, tmp_path / "g", "0.0.0.0", 77, Settings(data=tmp_path), clock_ahead_us=0)


def relay(**values: object) -> RelaySettings:
    return RelaySettings(**{"queue": "a", **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "destination"),
    [
        ({"target_queue": "b"}, ("", "b")),
        ({"target_exchange": "e"}, ("e", "key")),
        ({"target_exchange": "e", "routing_key": "k"}, ("e", "k")),
        ({"target_exchange": "e", "routing_key": ""}, ("e", "")),
        ({"target": "amqp://h"}, ("events", "key")),
        ({"routing_key": "k"}, ("events", "k")),
    ],
)
def test_a_message_keeps_what_the_relay_does_not_name(values: dict[str, str], destination: tuple[str, str]) -> None:
    way = router_of(relay(**values))(Delivery(1, "events", "key", b"", b""))
    assert way is not None and way.destination == Destination(*destination) and way.otherwise is None


def test_a_side_is_this_node_or_a_url_or_a_file(node: Node, tmp_path: Path) -> None:
    (file := tmp_path / "url").write_text("amqp://ann:s3cr3t@other:78/shop\n")
    settings = relay(vhost="here", target=f"@{file}", target_queue="b")
    sides = sides_of("orders", settings, node)
    assert [str(each) for each in sides.places] == ["127.0.0.1:77/here", "other:78/shop"]
    assert sides.target.credentials.password == "s3cr3t"
    places = places_of(settings, sides)
    assert places.source.queue == "a" and (places.target_queue, places.target_exchange) == ("b", None)  # type: ignore[union-attr]
    assert places_of(relay(target_exchange="e"), sides).target_exchange == "e"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"source": "@/none"}, "source: cannot read the URL in /none: No such file or directory"),
        ({"target": "amqp://h:1/?heartbeat=x", "target_queue": "b"}, "target: no AMQP URL: Invalid heartbeat value"),
        ({"target": "amqp://localhost:77/"}, "source and target are the same queue"),
        ({"target": "amqp://127.0.0.1:77", "target_queue": "a"}, "source and target are the same queue"),
    ],
)
def test_sides_that_cannot_be_are_refused(node: Node, values: dict[str, str], words: str) -> None:
    with pytest.raises(CommandError) as refused:
        sides_of("orders", relay(**values), node)
    assert str(refused.value).startswith(words)


@pytest.mark.parametrize(
    "content", [b"amqp://ann:s3/cr3t@h", b"s3cr3t", b"amqp://s3cr3t:\xff@h", b"amqp://ann:s3cr3t@h:x"]
)
def test_what_a_file_contains_is_not_quoted(node: Node, tmp_path: Path, content: bytes) -> None:
    (file := tmp_path / "url").write_bytes(content)
    with pytest.raises(CommandError) as refused:
        sides_of("orders", relay(source=f"@{file}", target_queue="b"), node)
    assert "cr3t" not in str(refused.value) and "\n" not in str(refused.value)


def test_this_node_is_a_side_only_where_it_has_a_listener_without_tls(node: Node) -> None:
    public = ListenerSettings(certificates=(Path("/a.pem"),))
    secured = node.settings.model_copy(update={"plain": False, "listeners": {"public": public}})
    with pytest.raises(CommandError, match=r"^source: this node has no listener without TLS"):
        sides_of("orders", relay(target="amqp://other"), replace(node, settings=secured))
    settings = relay(source="amqps://one", target="amqps://other")
    sides_of("orders", settings, replace(node, settings=secured))


def test_a_queue_of_another_vhost_or_exchange_is_elsewhere(node: Node) -> None:
    sides_of("orders", relay(target="amqp://localhost:77/other"), node)
    sides_of("orders", relay(target="amqp://localhost:77", target_exchange="e"), node)
    sides_of("orders", relay(target="amqp://localhost:78", target_queue="a"), node)
