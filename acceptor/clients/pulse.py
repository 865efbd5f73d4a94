"""How much a channel has published lately: whether a stop need be announced to it early (acceptor/holding/early.py)."""

from __future__ import annotations

# Each second the count decays by a tenth, so that it covers about the last ten seconds.
LATELY_SECONDS = 10.0
# A smaller count of messages is treated as 0.
LEAST = 0.1


class Pulse:
    """The publishing rate of a channel: `count` messages in all, `lately` the decayed count, up to `counted`."""

    __slots__ = ("count", "counted", "lately")

    def __init__(self) -> None:
        self.count = self.counted = 0
        self.lately = 0.0

    def tick(self) -> None:
        """Once a second."""
        self.lately = self.lately * (1 - 1 / LATELY_SECONDS) + self.count - self.counted
        self.counted = self.count
        if self.lately < LEAST:
            self.lately = 0.0

    def rate(self) -> float:
        """Return the present rate in messages a second."""
        return (self.lately + self.count - self.counted) / LATELY_SECONDS
