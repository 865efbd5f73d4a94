"""A message on its way through a relay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.client.unconfirmed import Destination


class Way(NamedTuple):
    """Where a message is published to; `otherwise` if that exchange does not exist, or routes it to no queue."""

    destination: Destination
    otherwise: Destination | None = None


@dataclass(slots=True, eq=False)
class Delivery:
    """A message that the source has delivered. `properties` are those of its content header, encoded; `tag` is the
    delivery tag, 0 once the source's channel is gone. `unroutable`: it was returned for want of a route.
    """

    tag: int
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes
    way: Way | None = None
    unroutable: bool = False


Router = Callable[[Delivery], Way | None]
"""Chooses the way of a message; None if the relay leaves it where it is."""
