"""An acceptor's counts of its clients, for the gauges (docs/gauges.md)."""

from __future__ import annotations


class Counters:
    """The counters of one incarnation: its open channels, and since its start the connections that were made, and the
    messages published and confirmed.
    """

    __slots__ = ("confirmed", "connections", "open_channels", "published")

    def __init__(self) -> None:
        self.connections = self.open_channels = self.published = self.confirmed = 0
