"""An acceptor's counts of its clients, for the gauges (docs/gauges.md)."""

from __future__ import annotations


class Counters:
    """The counters of one incarnation: its open channels, and the messages published and confirmed since its start."""

    __slots__ = ("confirmed", "open_channels", "published")

    def __init__(self) -> None:
        self.open_channels = self.published = self.confirmed = 0
