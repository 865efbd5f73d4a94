"""The ways of dead letters back to where they came from."""

from __future__ import annotations

from ops.relay.delivery import Delivery, Way
from penstock.amqp.deaths import origin_of
from penstock.client.unconfirmed import Destination


def way_back(delivery: Delivery) -> Way | None:
    """Return the way to the exchange to which a message was published before its first death, with its first routing
    key then; otherwise to the queue in which it died. None if it is no dead letter.
    """
    origin = origin_of(delivery.properties)
    if origin is None:
        return None
    queue = Destination("", origin.queue)
    if origin.exchange is None:
        return Way(queue)
    return Way(Destination(origin.exchange, origin.routing_key), queue if origin.exchange else None)


def way_to_queue(delivery: Delivery) -> Way | None:
    """Return the way to the queue in which a message died first. None if it is no dead letter."""
    origin = origin_of(delivery.properties)
    return None if origin is None else Way(Destination("", origin.queue))
