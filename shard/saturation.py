"""Whether a queue has room: the one place where stop and resume are decided.

      ok ──(count or bytes above its stop mark)──▶ saturated
      ok ◀──(count and bytes at or below their resume marks)── saturated

Every change begins a new flow epoch, so that a late or repeated broadcast can be told from a new one.
"""

from __future__ import annotations

from penstock.watermarks import Marks


class Saturation:
    """The flow state of one queue. `since` is when it changed last, in microseconds since 1970.

    `peak_count` and `peak_bytes` are the deepest of the last time that it was saturated; it is `near` from
    `comes_near` on until it is at or below its resume marks.
    """

    __slots__ = ("epoch", "marks", "near", "peak_bytes", "peak_count", "saturated", "since")

    def __init__(self, marks: Marks, now: int, epoch: int = 0) -> None:
        self.marks = marks
        self.saturated = False
        self.near = False
        self.epoch = epoch
        self.since = now
        self.peak_count = self.peak_bytes = 0

    def comes_near(self, count: int, octets: int, percent: int) -> bool:
        """Take in a new depth; whether it has now come to so much of a stop mark."""
        marks = self.marks
        was = self.near
        self.near = marks.saturated(was, count, octets) or (
            (marks.stop_count > 0 and 100 * count >= percent * marks.stop_count)
            or (marks.stop_bytes > 0 and 100 * octets >= percent * marks.stop_bytes)
        )
        return self.near and not was

    def update(self, count: int, octets: int, now: int) -> bool:
        """Take in a new depth; whether the state changed."""
        saturated = self.marks.saturated(self.saturated, count, octets)
        if saturated:
            self.peak_count = max(self.peak_count, count) if self.saturated else count
            self.peak_bytes = max(self.peak_bytes, octets) if self.saturated else octets
        if saturated == self.saturated:
            return False
        self.saturated = saturated
        self.epoch += 1
        self.since = now
        return True
