"""Whether a queue has room: the one place where stop and resume are decided.

      ok ──(count or bytes above its stop mark)──▶ saturated
      ok ◀──(count and bytes at or below their resume marks)── saturated

Every change begins a new flow epoch, so that a late or repeated broadcast can be told from a new one.
"""

from __future__ import annotations

from penstock.watermarks import Marks


class Saturation:
    """The flow state of one queue. `since` is when it changed last, in microseconds since 1970."""

    __slots__ = ("epoch", "marks", "saturated", "since")

    def __init__(self, marks: Marks, now: int, epoch: int = 0) -> None:
        self.marks = marks
        self.saturated = False
        self.epoch = epoch
        self.since = now

    def update(self, count: int, octets: int, now: int) -> bool:
        """Take in a new depth; whether the state changed."""
        saturated = self.marks.saturated(self.saturated, count, octets)
        if saturated == self.saturated:
            return False
        self.saturated = saturated
        self.epoch += 1
        self.since = now
        return True
