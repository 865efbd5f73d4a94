"""An acceptor's counts of its clients, for the gauges (docs/gauges.md)."""

from __future__ import annotations

from acceptor.clients.traffic import Traffic


class Counters:
    """The counters of one incarnation, since its start: the connections that were made, and those of them that were
    opened and closed; channels opened and closed; queues declared; messages published and confirmed; transactions over
    several shards. `ended` is the traffic of channels that have ended.
    """

    __slots__ = (
        "channels_closed", "channels_opened", "confirmed", "connections", "connections_closed", "connections_opened",
        "ended", "published", "queues_declared", "transactions",
    )  # fmt: skip

    def __init__(self) -> None:
        self.connections = self.connections_opened = self.connections_closed = 0
        self.channels_opened = self.channels_closed = self.queues_declared = 0
        self.published = self.confirmed = self.transactions = 0
        self.ended = Traffic()

    @property
    def open_channels(self) -> int:
        """The number of open channels."""
        return self.channels_opened - self.channels_closed
