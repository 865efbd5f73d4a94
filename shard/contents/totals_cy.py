# cython: annotation_typing=False
"""What a queue has counted since its totals began: messages, and bytes of bodies."""

from __future__ import annotations


class Totals:
    """Counts of one queue, or of a line of it. `delivered` counts each delivery of a message, `redelivered` those of a
    message that was delivered before; `acked` are messages that a consumer took for good, `dropped` those that left
    otherwise.
    """

    def __init__(self) -> None:
        self.published = self.published_bytes = 0
        self.delivered = self.delivered_bytes = 0
        self.acked = 0
        self.redelivered = 0
        self.dropped = 0

    def add(self, other: Totals, sign: int) -> int:
        """Add other totals (`sign` 1), or subtract them (-1)."""
        self.published += sign * other.published
        self.published_bytes += sign * other.published_bytes
        self.delivered += sign * other.delivered
        self.delivered_bytes += sign * other.delivered_bytes
        self.acked += sign * other.acked
        self.redelivered += sign * other.redelivered
        self.dropped += sign * other.dropped
        return 0
