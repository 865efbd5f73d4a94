"""What the settings of a relay mean: its two sides, and the ways of its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ops.administration.input import url_in
from ops.errors import CommandError
from ops.relay.addresses import Place, parameters, place_of, url_of_node
from ops.relay.delivery import Delivery, Router, Way
from penstock.client.unconfirmed import Destination
from penstock.node.node import Node
from penstock.settings.relays import RelaySettings

if TYPE_CHECKING:
    from ops.relay.shell import Places


class Sides(NamedTuple):
    """pika's parameters of both sides of a relay."""

    source: Any
    target: Any

    @property
    def places(self) -> tuple[Place, Place]:
        """Both vhosts, for people."""
        return place_of(self.source), place_of(self.target)


def sides_of(name: str, settings: RelaySettings, node: Node) -> Sides:
    """Return both sides of a relay of a node; files with URLs are read. CommandError if there is no such side, if
    messages would come back to their queue, or if pika is missing.
    """
    sides = Sides(
        _parameters("source", settings.source, name, settings, node),
        _parameters("target", settings.target, name, settings, node),
    )
    source, target = sides.places
    if source == target and settings.comes_back:
        raise CommandError("source and target are the same queue")
    return sides


def places_of(settings: RelaySettings, sides: Sides) -> Places:
    """Return from where to where a relay leads."""
    from ops.relay.shell import Places, QueueOf  # not at the top: it needs pika

    source = QueueOf(sides.source, settings.queue)
    return Places(source, sides.target, settings.target_queue, settings.target_exchange)


def router_of(settings: RelaySettings) -> Router:
    """Return the ways of a relay's messages."""
    if settings.target_queue is not None:
        way = Way(Destination("", settings.target_queue))
        return lambda _: way

    def route(delivery: Delivery) -> Way:
        exchange = delivery.exchange if settings.target_exchange is None else settings.target_exchange
        key = delivery.routing_key if settings.routing_key is None else settings.routing_key
        return Way(Destination(exchange, key))

    return route


def _parameters(side: str, address: str, name: str, settings: RelaySettings, node: Node) -> Any:
    try:
        url = url_in(address) or url_of_node(node.local, settings.vhost)
        return parameters(url, f"penstock relay {name}")
    except CommandError as error:
        raise CommandError(f"{side}: {error}") from None
