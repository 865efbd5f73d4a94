"""Whether a queue has room: the one place where stop and resume of a queue are decided (by `Marks.saturated`).

      ok ──(count or bytes above its stop mark)──▶ saturated
      ok ◀──(count and bytes at or below their resume marks)── saturated

**Theory of operation.** `update` gets each new depth and keeps two states. `over` follows the marks: it is set by the
first depth above a stop mark and cleared when both dimensions are at or below their resume marks; between the marks it
stays, so a queue does not flap. `saturated` is what producers obey: `over`, except that a queue that stands aside is
never saturated. Where room was lent, the queue is over only if the raised marks say so too.

**Invariant.** After each `update`, `saturated` equals `over and not aside`, and the epoch has grown by one exactly if
`saturated` changed. So a late or repeated broadcast can be told from a new one. A stop that continues from an earlier
incarnation or home (`continue_stop`) keeps its beginning and takes no new epoch.

The overshoot statistics never influence the decision. `exceeds` measures from the stop mark or from a *floor* above it:
the depth for which producers are not responsible, as the messages were there before the marks or are never held. The
floor follows the depth down, and rises only by `excuse` or while new marks settle. Near its marks a queue takes this
whole path at each turn; below them `is_calm` proves that no answer can change, and the path is skipped.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import NamedTuple

from penstock.limits.watermarks import Marks

LENT_FOR = 60_000_000
"""Microseconds that room stays lent after the queue was last above its stop mark."""
SETTLING = 5_000_000
"""Microseconds after which all acceptors know new marks and the depth of a queue."""
LENT_COUNT, LENT_BYTES = 1_000, 1024 * 1024
"""Messages and bytes that may always be lent: batches are as large where marks are small."""
GROWTH_INTERVAL = 1_000_000
"""Microseconds between two measurements of growth."""


class Stop(NamedTuple):
    """A stop that is not over: its beginning, in microseconds since 1970, and the peaks of the queue's depth."""

    since: int
    peak_count: int
    peak_bytes: int


class Saturation:
    """The flow state of one queue. `since` is when it last changed, in microseconds since 1970.

    The queue is `over` from a stop mark on until it is down to its resume marks; `peak_count` and `peak_bytes` are the
    deepest of the last such time. `lent` are higher marks that replace its own as long as the queue needs them. It is
    `near` from `comes_near` on until it is at or below its resume marks.

    `over_count` and `over_bytes` are the furthest that publishes which should have been held have brought the depth
    above its stop marks. Messages that were there before the marks, came within `SETTLING` of them, or are never held
    (dead letters, transactions, events) do not count, nor does lent room. `growth` is in messages a second, as last
    measured.
    """

    __slots__ = (
        "_calm_bytes",
        "_calm_count",
        "_floor_bytes",
        "_floor_count",
        "_measured",
        "_measured_count",
        "_settled",
        "epoch",
        "growth",
        "lent",
        "lent_until",
        "marks",
        "near",
        "over",
        "over_bytes",
        "over_count",
        "peak_bytes",
        "peak_count",
        "saturated",
        "since",
    )  # fmt: skip

    def __init__(self, marks: Marks, now: int, epoch: int = 0) -> None:
        self.marks = marks
        self.growth = 0.0
        self._measured = now
        self._measured_count = 0
        self._settled = now
        self._calm_count = self._calm_bytes = -1
        self._floor_count = self._floor_bytes = 0
        self.over_count = self.over_bytes = 0
        self.lent: Marks | None = None
        self.lent_until = 0
        self.saturated = False
        self.over = False
        self.near = False
        self.epoch = epoch
        self.since = now
        self.peak_count = self.peak_bytes = 0

    def set_marks(self, marks: Marks, now: int) -> None:
        """Set other marks. Overshoot counts only after `SETTLING`: acceptors must learn the marks before they can obey
        them.
        """
        self.marks = marks
        self._calm_count = self._calm_bytes = -1
        self.over_count = self.over_bytes = 0
        self._settled = now + SETTLING

    def stop(self) -> Stop | None:
        """The stop that is not over, None if there is none."""
        return Stop(self.since, self.peak_count, self.peak_bytes) if self.saturated else None

    def continue_stop(self, stop: Stop) -> None:
        """Continue a stop of an earlier incarnation or home, until the queue is down to its resume marks."""
        self.saturated = self.over = self.near = True
        self.since, self.peak_count, self.peak_bytes = stop

    def exclude_depth(self, now: int) -> None:
        """Leave the present depth out of the overshoot: it is not due to producers that obey the marks."""
        self._settled = now + SETTLING

    def excuse(self, count: int, nbytes: int) -> None:
        """Leave messages and bytes that come whatever the marks out of the overshoot."""
        self._floor_count = max(self._floor_count, self.marks.stop_count) + count
        self._floor_bytes = max(self._floor_bytes, self.marks.stop_bytes) + nbytes

    def lend(self, count: int, nbytes: int, in_hand: int, in_hand_bytes: int, percent: int, now: int) -> bool:
        """Raise the marks above the present depth, since a deadlock needs room to go on. Return False if the queue has
        been lent all that it may be: `percent` of its stop marks.

        The loan is as large as the unacked messages, so that consumers may publish one for each, plus the distance that
        takes another queue from its stop mark down to its resume mark; where that was not enough, four times the loan
        before. It lasts as long as it is used, so that the clients it let go on do not stop again at once.
        """
        marks, before = self.marks, self.lent
        more = self._wanted(count, marks.stop_count, marks.resume_count, in_hand, before.stop_count if before else 0)
        more = min(more, max(marks.stop_count * percent // 100, LENT_COUNT))
        wanted = self._wanted(
            nbytes, marks.stop_bytes, marks.resume_bytes, in_hand_bytes, before.stop_bytes if before else 0
        )
        wanted = min(wanted, max(marks.stop_bytes * percent // 100, LENT_BYTES))
        self.keep_lent(more, wanted, now)
        assert self.lent is not None
        grows = before is None or self.lent.stop_count > before.stop_count or self.lent.stop_bytes > before.stop_bytes
        self.over &= not grows
        return grows

    def keep_lent(self, count: int, nbytes: int, now: int) -> None:
        """Set the loan of messages and bytes beyond the stop marks: a new one, or that of an earlier incarnation or
        home.
        """
        marks = self.marks
        self.lent = replace(
            marks,
            stop_count=marks.stop_count and marks.stop_count + count,
            resume_count=marks.stop_count and marks.resume_count + count,
            stop_bytes=marks.stop_bytes and marks.stop_bytes + nbytes,
            resume_bytes=marks.stop_bytes and marks.resume_bytes + nbytes,
        )
        self.lent_until = now + LENT_FOR

    @staticmethod
    def _wanted(depth: int, stop: int, resume: int, in_hand: int, before: int) -> int:
        """The loan that is wanted beyond a stop mark; `before` is the mark as raised by the last loan, 0 for none."""
        depth = max(depth, stop)
        return max(depth - stop + in_hand + depth - resume, 4 * (before - stop))

    def lent_beyond(self) -> tuple[int, int]:
        """Messages and bytes that are lent beyond the stop marks."""
        if self.lent is None:
            return 0, 0
        return self.lent.stop_count - self.marks.stop_count, self.lent.stop_bytes - self.marks.stop_bytes

    def over_lent(self, over: bool, count: int, nbytes: int, now: int) -> bool:
        """Whether the queue is over its raised marks too; `over`: its own marks. A loan that has expired is ended."""
        assert self.lent is not None
        lent = self.lent
        if over:
            self.lent_until = now + LENT_FOR
        elif now >= self.lent_until:
            self.lent = None
        return over and lent.saturated(self.over, count, nbytes)

    def exceeds(self, count: int, nbytes: int, now: int) -> bool:
        """Record a new depth for the overshoot; return whether it is further above a stop mark than ever."""
        if now < self._settled:
            self._floor_count, self._floor_bytes = count, nbytes
            return False
        self._floor_count = min(self._floor_count, count)
        self._floor_bytes = min(self._floor_bytes, nbytes)
        marks = self.marks
        stop_count, stop_bytes = marks.stop_count, marks.stop_bytes
        if self.lent is not None:
            stop_count, stop_bytes = self.lent.stop_count, self.lent.stop_bytes
        over = count - max(stop_count, self._floor_count) if marks.stop_count else 0
        over_bytes = nbytes - max(stop_bytes, self._floor_bytes) if marks.stop_bytes else 0
        if over <= self.over_count and over_bytes <= self.over_bytes:
            return False
        self.over_count = max(self.over_count, over)
        self.over_bytes = max(self.over_bytes, over_bytes)
        return True

    def measure_growth(self, count: int, now: int) -> None:
        """Measure the growth, at most once in `GROWTH_INTERVAL` microseconds."""
        if now >= self._measured + GROWTH_INTERVAL:
            self.growth = (count - self._measured_count) * 1e6 / (now - self._measured)
            self._measured, self._measured_count = now, count

    def full_in(self, count: int, nbytes: int) -> float | None:
        """Seconds until a stop mark is reached at the growth last measured; None if none ever is."""
        missing = self.marks.missing(count, nbytes)
        return None if missing is None or self.growth <= 0 else missing / self.growth

    def is_free(self) -> bool:
        """Whether the queue holds no producer, is not over its marks, and has no loan."""
        return not (self.over or self.saturated) and self.lent is None

    def is_calm(self, count: int, nbytes: int, now: int) -> bool:
        """Whether the queue is, and was, so far below its marks that no decision can change at this depth."""
        return (
            count <= self._calm_count
            and nbytes <= self._calm_bytes
            and not self.near
            and self.lent is None
            and now >= self._settled
            and self._floor_count <= self._calm_count
            and self._floor_bytes <= self._calm_bytes
            and not (self.over or self.saturated)
        )

    def comes_near(self, count: int, nbytes: int, percent: int) -> bool:
        """Record a new depth; return whether it has just come to `percent` of a stop mark."""
        marks = self.marks
        was = self.near
        if self._calm_count < 0:
            self._calm_count = _below(marks.stop_count, marks.resume_count, percent)
            self._calm_bytes = _below(marks.stop_bytes, marks.resume_bytes, percent)
        self.near = marks.saturated(was, count, nbytes) or (
            (marks.stop_count > 0 and 100 * count >= percent * marks.stop_count)
            or (marks.stop_bytes > 0 and 100 * nbytes >= percent * marks.stop_bytes)
        )
        return self.near and not was

    def update(self, count: int, nbytes: int, now: int, aside: bool = False) -> bool:
        """Record a new depth, and whether the queue stands aside; return whether `saturated` changed."""
        over = self.marks.saturated(self.over, count, nbytes)
        if self.lent is not None:
            over = self.over_lent(over, count, nbytes, now)
        if over:
            self.peak_count = max(self.peak_count, count) if self.over else count
            self.peak_bytes = max(self.peak_bytes, nbytes) if self.over else nbytes
        self.over = over
        saturated = over and not aside
        if saturated == self.saturated:
            return False
        self.saturated = saturated
        self.epoch += 1
        self.since = now
        return True


def _below(stop: int, resume: int, percent: int) -> int:
    """The greatest depth at which a queue neither holds producers nor is near to it; any depth if there is no mark."""
    return min(resume, (percent * stop - 1) // 100) if stop else sys.maxsize
