"""The routes that a channel has published along lately, and the one that is being made for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from acceptor.routing.routing import Publisher, Routing

if TYPE_CHECKING:
    from acceptor.routing.route import Route

MOST = 16
"""Routes that are remembered of a channel."""


class ChannelRoutes:
    """Routes of a channel: the last `MOST`, the latest at the end, and the one `in_the_making` for what it publishes
    next.
    """

    __slots__ = ("in_the_making", "recent")

    def __init__(self) -> None:
        self.recent: dict[Route, None] = {}
        self.in_the_making: Routing | None = None


class RoutingChannel(Publisher, Protocol):
    """A channel that publishes, with its routes."""

    @property
    def routes(self) -> ChannelRoutes: ...
