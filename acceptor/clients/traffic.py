"""The messages of a channel, counted by the run or delivered range, and how much it has published recently."""

from __future__ import annotations

# Each second the count decays by a tenth, so that it covers about the last ten seconds.
RECENT_SECONDS = 10.0
# A smaller count of messages is treated as 0.
LEAST = 0.1

COUNTS = (
    "published", "returned", "dropped", "confirmed", "delivered", "delivered_no_ack", "got", "got_no_ack", "got_empty",
    "redelivered", "acked",
)  # fmt: skip
"""The counts, as they are sent to operators."""


class Traffic:
    """The messages of a channel since it was opened, or of several channels.

    `published` to queues; `returned` or `dropped`, as no queue takes them; `confirmed` by acks. `delivered` to
    consumers and `got` by basic.get, of which `redelivered` not for the first time; `got_empty` counts gets that found
    none. `acked` counts acks, not rejects. `recent` is the decayed count of those published, up to `counted` of them:
    whether the channel is worth an early notice (`acceptor.holding.early`).
    """

    __slots__ = (*COUNTS, "counted", "recent")

    def __init__(self) -> None:
        self.published = self.returned = self.dropped = self.confirmed = 0
        self.delivered = self.delivered_no_ack = self.redelivered = self.acked = 0
        self.got = self.got_no_ack = self.got_empty = 0
        self.counted = 0
        self.recent = 0.0

    def tick(self) -> None:
        """Once a second."""
        self.recent = self.recent * (1 - 1 / RECENT_SECONDS) + self.published - self.counted
        self.counted = self.published
        if self.recent < LEAST:
            self.recent = 0.0

    def rate(self) -> float:
        """Return the present rate of publishes in messages a second."""
        return (self.recent + self.published - self.counted) / RECENT_SECONDS

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in COUNTS}

    def add(self, other: Traffic) -> None:
        """Add the counts of another channel."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
