"""How much a channel has published recently: whether it is worth an early notice (`acceptor.holding.early`)."""

from __future__ import annotations

# Each second the count decays by a tenth, so that it covers about the last ten seconds.
RECENT_SECONDS = 10.0
# A smaller count of messages is treated as 0.
LEAST = 0.1


class Pulse:
    """The publishing rate of a channel: `count` messages in all, `recent` the decayed count, up to `counted`."""

    __slots__ = ("count", "counted", "recent")

    def __init__(self) -> None:
        self.count = self.counted = 0
        self.recent = 0.0

    def tick(self) -> None:
        """Once a second."""
        self.recent = self.recent * (1 - 1 / RECENT_SECONDS) + self.count - self.counted
        self.counted = self.count
        if self.recent < LEAST:
            self.recent = 0.0

    def rate(self) -> float:
        """Return the present rate in messages a second."""
        return (self.recent + self.count - self.counted) / RECENT_SECONDS
