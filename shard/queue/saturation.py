"""Whether a queue has room: the one place where stop and resume are decided.

      ok ──(count or bytes above its stop mark)──▶ saturated
      ok ◀──(count and bytes at or below their resume marks)── saturated

Every change begins a new flow epoch, so that a late or repeated broadcast can be told from a new one.

A queue that stands aside holds nobody: it is `over` its marks without ever being saturated.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import NamedTuple

from penstock.limits.watermarks import Marks

LENT_FOR = 60_000_000
"""Microseconds that room is lent for, from when the queue was last above its stop mark."""
SETTLING = 5_000_000
"""Microseconds after which acceptors are sure to know new marks, and what is in a queue."""
LENT_COUNT, LENT_BYTES = 1_000, 1024 * 1024
"""So many messages and bytes may always be lent: batches are as large where marks are small."""
LOOK = 1_000_000
"""Microseconds between two looks at how fast a queue grows."""


class Stop(NamedTuple):
    """A stop that is not over: since when, in microseconds since 1970, and how deep the queue got."""

    since: int
    peak_count: int
    peak_bytes: int


class Saturation:
    """The flow state of one queue. `since` is when it changed last, in microseconds since 1970.

    It is `over` from its stop mark on until it is down to its resume marks; `peak_count` and `peak_bytes` are the
    deepest of the last such time. What it was `lent` are higher marks, which count instead
    as long as it needs them. It is `near` from `comes_near` on until it is at or below its resume marks.

    `over_count` and `over_bytes` are the furthest that the depth has been above its stop marks because of publishes
    that were to be held. What was there before the marks, came within `SETTLING` of them, or is never held (dead
    letters, transactions, events) is not in them, nor is what was lent.
    `growth` is in messages a second, as of the last look.
    """

    __slots__ = (
        "_calm_bytes",
        "_calm_count",
        "_floor_bytes",
        "_floor_count",
        "_looked",
        "_looked_count",
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
        self._looked = now
        self._looked_count = 0
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

    def govern(self, marks: Marks, now: int) -> None:
        """Other marks, or what an earlier life has left: acceptors have to learn of it before they can keep to it."""
        self.marks = marks
        self._calm_count = self._calm_bytes = -1
        self.over_count = self.over_bytes = 0
        self._settled = now + SETTLING

    def stop(self) -> Stop | None:
        """The stop that is not over, if there is one."""
        return Stop(self.since, self.peak_count, self.peak_bytes) if self.saturated else None

    def go_on(self, stop: Stop) -> None:
        """It was saturated in an earlier life, or where it was: it is until it is down to its resume marks."""
        self.saturated = self.over = self.near = True
        self.since, self.peak_count, self.peak_bytes = stop

    def disregard(self, now: int) -> None:
        """Its depth is nobody's doing who keeps to the marks."""
        self._settled = now + SETTLING

    def excuse(self, count: int, octets: int) -> None:
        """So much comes whatever the marks."""
        self._floor_count = max(self._floor_count, self.marks.stop_count) + count
        self._floor_bytes = max(self._floor_bytes, self.marks.stop_bytes) + octets

    def lend(self, count: int, octets: int, in_hand: int, in_hand_octets: int, percent: int, now: int) -> bool:
        """Let more in than is there, whatever the marks: somebody could not go on for want of that. False if it has
        been lent all that it may be: so much percent of its stop marks.

        It is as much as consumers have in hand, so that they may publish one for each, and as it takes another queue to
        come from its stop mark down to its resume mark; four times as much as before where that was not enough. It
        stays lent as long as it is used, so that who has been let go on does not stand still again at once.
        """
        marks, before = self.marks, self.lent
        more = self._wanted(count, marks.stop_count, marks.resume_count, in_hand, before.stop_count if before else 0)
        more = min(more, max(marks.stop_count * percent // 100, LENT_COUNT))
        wanted = self._wanted(
            octets, marks.stop_bytes, marks.resume_bytes, in_hand_octets, before.stop_bytes if before else 0
        )
        wanted = min(wanted, max(marks.stop_bytes * percent // 100, LENT_BYTES))
        self.keep_lent(more, wanted, now)
        assert self.lent is not None
        grows = before is None or self.lent.stop_count > before.stop_count or self.lent.stop_bytes > before.stop_bytes
        self.over &= not grows
        return grows

    def keep_lent(self, count: int, octets: int, now: int) -> None:
        """It is lent so many messages and bytes beyond its stop marks: by now, in an earlier life, or where it was."""
        marks = self.marks
        self.lent = replace(
            marks,
            stop_count=marks.stop_count and marks.stop_count + count,
            resume_count=marks.stop_count and marks.resume_count + count,
            stop_bytes=marks.stop_bytes and marks.stop_bytes + octets,
            resume_bytes=marks.stop_bytes and marks.resume_bytes + octets,
        )
        self.lent_until = now + LENT_FOR

    @staticmethod
    def _wanted(depth: int, stop: int, resume: int, in_hand: int, before: int) -> int:
        """What is wanted beyond a stop mark, `before` being what it was raised to."""
        depth = max(depth, stop)
        return max(depth - stop + in_hand + depth - resume, 4 * (before - stop))

    def lent_beyond(self) -> tuple[int, int]:
        """Messages and bytes that it is lent beyond its stop marks."""
        if self.lent is None:
            return 0, 0
        return self.lent.stop_count - self.marks.stop_count, self.lent.stop_bytes - self.marks.stop_bytes

    def over_lent(self, over: bool, count: int, octets: int, now: int) -> bool:
        """Whether it is over what it was lent, too; `over`: its own marks."""
        assert self.lent is not None
        lent = self.lent
        if over:
            self.lent_until = now + LENT_FOR
        elif now >= self.lent_until:
            self.lent = None
        return over and lent.saturated(self.over, count, octets)

    def exceeds(self, count: int, octets: int, now: int) -> bool:
        """Take in a new depth; whether it is further above a stop mark than ever."""
        if now < self._settled:
            self._floor_count, self._floor_bytes = count, octets
            return False
        self._floor_count = min(self._floor_count, count)
        self._floor_bytes = min(self._floor_bytes, octets)
        marks = self.marks
        stop_count, stop_bytes = marks.stop_count, marks.stop_bytes
        if self.lent is not None:
            stop_count, stop_bytes = self.lent.stop_count, self.lent.stop_bytes
        over = count - max(stop_count, self._floor_count) if marks.stop_count else 0
        over_bytes = octets - max(stop_bytes, self._floor_bytes) if marks.stop_bytes else 0
        if over <= self.over_count and over_bytes <= self.over_bytes:
            return False
        self.over_count = max(self.over_count, over)
        self.over_bytes = max(self.over_bytes, over_bytes)
        return True

    def look(self, count: int, now: int) -> None:
        """Once in a while, see how fast it grows."""
        if now >= self._looked + LOOK:
            self.growth = (count - self._looked_count) * 1e6 / (now - self._looked)
            self._looked, self._looked_count = now, count

    def full_in(self, count: int, octets: int) -> float | None:
        """Seconds until a stop mark is reached, at the growth of the last look; None if none ever is."""
        missing = self.marks.missing(count, octets)
        return None if missing is None or self.growth <= 0 else missing / self.growth

    def is_free(self) -> bool:
        """Whether it holds nobody, is not over its marks, and was lent nothing."""
        return not (self.over or self.saturated) and self.lent is None

    def is_calm(self, count: int, octets: int, now: int) -> bool:
        """Whether it is so far below its marks, and has been before, that at this depth nothing changes."""
        return (
            count <= self._calm_count
            and octets <= self._calm_bytes
            and not self.near
            and self.lent is None
            and now >= self._settled
            and self._floor_count <= self._calm_count
            and self._floor_bytes <= self._calm_bytes
            and not (self.over or self.saturated)
        )

    def comes_near(self, count: int, octets: int, percent: int) -> bool:
        """Take in a new depth; whether it has now come to so much of a stop mark."""
        marks = self.marks
        was = self.near
        if self._calm_count < 0:
            self._calm_count = _below(marks.stop_count, marks.resume_count, percent)
            self._calm_bytes = _below(marks.stop_bytes, marks.resume_bytes, percent)
        self.near = marks.saturated(was, count, octets) or (
            (marks.stop_count > 0 and 100 * count >= percent * marks.stop_count)
            or (marks.stop_bytes > 0 and 100 * octets >= percent * marks.stop_bytes)
        )
        return self.near and not was

    def update(self, count: int, octets: int, now: int, aside: bool = False) -> bool:
        """Take in a new depth, and whether it stands aside; whether `saturated` changed."""
        over = self.marks.saturated(self.over, count, octets)
        if self.lent is not None:
            over = self.over_lent(over, count, octets, now)
        if over:
            self.peak_count = max(self.peak_count, count) if self.over else count
            self.peak_bytes = max(self.peak_bytes, octets) if self.over else octets
        self.over = over
        saturated = over and not aside
        if saturated == self.saturated:
            return False
        self.saturated = saturated
        self.epoch += 1
        self.since = now
        return True


def _below(stop: int, resume: int, percent: int) -> int:
    """The most at which a queue neither holds nor is near to it; any depth where there is no mark."""
    return min(resume, (percent * stop - 1) // 100) if stop else sys.maxsize
