"""How much a channel has published lately: whether a stop need be announced to it early (acceptor/early.py)."""

from __future__ import annotations

# What was published a second ago counts a tenth less: what remains is of about the last ten seconds.
LATELY_SECONDS = 10.0
# Less than that is nothing, messages.
LEAST = 0.1


class Pulse:
    """What a channel has published: `count` messages in all, `lately` in about the last seconds up to `counted`."""

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
        """Messages a second, by now."""
        return (self.lately + self.count - self.counted) / LATELY_SECONDS
