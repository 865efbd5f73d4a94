"""Rounds of the room in a queue that has been full lately: what producers get of it follows their weights.

A full queue lets in what has left it, again and again. If whoever waits when it resumes got all of that, a producer
would get as much as it has under way: one with a window of 20 confirms has 20 messages there, one with 2,000 has them
all. So what each share (acceptor/fair.py) has had is remembered from stop to stop, and its room is given in rounds: who
has used up what a round brings waits for those who have not, though these have nothing to publish just now, as they may
have to hear of their confirms first. They are waited for only as long as

 - they have published `LINGER_SECONDS` ago at most, or in the last cycle where the queue has resumed since then,
 - the round has waited for less than `PATIENCE_SECONDS`, and
 - the queue is deeper than half of its resume mark, so that its consumers lack nothing.

Several acceptors have each its part, by the weights at each, of what all let in, and one that is ahead of that waits
for the others likewise. How much it is, the queue's gauge says: in messages, each as large as those that are there.

      calm ──(somebody has waited)──▶ in rounds ──(nobody has for `LATELY_SECONDS`)──▶ calm
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from acceptor.gate import SHARE, SHARE_OCTETS
from penstock.limits.watermarks import Marks

if TYPE_CHECKING:
    from acceptor.fair import Share
    from acceptor.gate import Session
    from acceptor.inlet import Inlet
    from acceptor.metered import Metered

# More than it takes a client to hear of its confirms and publish again, near by.
LINGER_SECONDS = 0.02
PATIENCE_SECONDS = 0.05
# How often it is looked at whether somebody has been waited for long enough.
LOOK_SECONDS = 0.005
LOOK_LATER_SECONDS = 0.1
LATELY_SECONDS = 2.0
FREE = 1 << 62
"""How much may be sent where nobody is to be waited for."""


class Rounds:
    """Those of one inlet, at one acceptor. `contended` are the inlets whose queues have been full lately.

    Since `waited_at` nobody has had to wait; `before` and `resumed_at` are when the queue has last resumed, as far as
    was noticed, of flow epoch `epoch`; since `held_since` somebody waits for others; all in seconds by `clock`. Of
    `published` messages that the queue has taken in, at the last look, this acceptor has `left` so many of its part.
    """

    __slots__ = (
        "before", "clock", "contended", "epoch", "held_since", "left", "metered", "published", "resumed_at",
        "waited_at",
    )  # fmt: skip

    def __init__(self, clock: Callable[[], float], metered: Metered, contended: dict[Inlet, None]) -> None:
        self.clock = clock
        self.metered = metered
        self.contended = contended
        self.epoch = -1
        self.before = self.resumed_at = self.waited_at = 0.0
        self.held_since: float | None = None
        self.left = 0.0
        self.published = 0

    def begin(self, inlet: Inlet) -> None:
        """Somebody who has waited is to be let in."""
        self.waited_at = self.clock()
        self.contended[inlet] = None
        inlet.waiting.remembers = True
        epoch = inlet.flow_epoch()
        if epoch != self.epoch:
            self.epoch = epoch
            self.before, self.resumed_at = self.resumed_at, self.waited_at
            self.held_since = None
        if self.has_part(inlet):
            self.look_at_part(inlet)

    def has_part(self, inlet: Inlet) -> bool:
        """Whether others share the room at other acceptors."""
        return inlet.weight < inlet.all_weight

    def look_at_part(self, inlet: Inlet) -> None:
        """What all have let in since the last look is divided; so much at most may an acceptor be ahead, or behind."""
        queue = inlet.gauges.queue_read(inlet.slot)
        if queue is not None:
            more, self.published = float(max(queue.published - self.published, 0)), queue.published
            if not inlet.counts():
                count, octets = inlet.depth()
                more *= octets / max(count, 1)
            part = more * inlet.weight / inlet.all_weight
            most = self.ahead(inlet) + cycle(inlet) * inlet.weight / inlet.all_weight
            self.left = max(min(self.left + part, most), -cycle(inlet))

    def ahead(self, inlet: Inlet) -> float:
        """How far this acceptor may be ahead of others: what is under way from it is not in the gauge yet."""
        part = cycle(inlet) * inlet.weight / inlet.all_weight
        return max(part / 2, SHARE if inlet.counts() else SHARE_OCTETS)

    def forgive(self, inlet: Inlet) -> None:
        """Others do not use their part."""
        self.left += self.ahead(inlet)

    def charge(self, inlet: Inlet, session: Session, count: int, octets: int) -> None:
        """A session has sent so much. Who is alone owes nobody."""
        share = inlet.waiting.share_of(session)
        amount = count if inlet.counts() else octets
        share.surplus -= amount
        if len(inlet.waiting.remembered) == 1:
            share.surplus = max(share.surplus, 0)
        share.seen = self.clock()
        self.left -= amount

    def newcomer(self, inlet: Inlet, session: Session) -> int:
        """How much one may send that has not waited, in messages or octets."""
        line = inlet.waiting
        if line.first is not None or not line.all_spent():
            return 0
        if self.has_part(inlet):
            self.look_at_part(inlet)
            if self.left <= 0 and self.awaits(inlet):
                return 0
        share = line.share_of(session)
        if share.sessions:
            return 0
        if share.surplus > 0:
            return share.surplus
        return 0 if line or self.awaits(inlet) else FREE

    def has_had_its_part(self, inlet: Inlet) -> bool:
        """Whether this acceptor is ahead of others."""
        return self.left <= 0 and self.has_part(inlet)

    def awaits(self, inlet: Inlet) -> bool:
        """Who waits here has nothing left: whether to wait for those who have."""
        now = self.clock()
        if not is_deep(inlet.marks, *inlet.depth()) or not self.has_patience(inlet, now):
            self.held_since = None
            return False
        if self.held_since is None:
            self.held_since = now
        self.metered.closed[inlet] = None
        return True

    def due(self) -> float:
        """In how many seconds to look again."""
        return LOOK_SECONDS if self.held_since is not None else LOOK_LATER_SECONDS

    def has_patience(self, inlet: Inlet, now: float) -> bool:
        if self.held_since is not None and now >= self.held_since + PATIENCE_SECONDS:
            return False
        if self.has_had_its_part(inlet):
            return True
        return any(self.lingers(share, now) for share in inlet.waiting.remembered.values())

    def lingers(self, share: Share, now: float) -> bool:
        """Whether a share that has nothing to publish may have some soon."""
        if share.sessions or share.surplus <= 0 or share.seen < self.before:
            return False
        return now < max(share.seen, self.resumed_at) + LINGER_SECONDS

    def weight(self, inlet: Inlet) -> int:
        """Of those who share the room here, waiting or not."""
        line = inlet.waiting
        return sum(share.weight for share in line.remembered.values()) if line.remembered else line.weight

    def look(self, inlet: Inlet) -> None:
        """From time to time: forget who has been away for long."""
        line, now = inlet.waiting, self.clock()
        if line or inlet.is_saturated():
            self.waited_at = now
        if inlet.pace is not None or now >= self.waited_at + LATELY_SECONDS:
            self.contended.pop(inlet, None)
            line.forget()
            return
        for share in list(line.remembered.values()):
            if not share.sessions and now >= share.seen + LATELY_SECONDS:
                del line.remembered[share.key]


def cycle(inlet: Inlet) -> int:
    """What the queue lets in between a resume and the next stop, about, in messages or octets."""
    marks = inlet.marks
    return marks.stop_count - marks.resume_count if inlet.counts() else marks.stop_bytes - marks.resume_bytes


def is_deep(marks: Marks, count: int, octets: int) -> bool:
    """Whether a queue is deeper than half of its resume marks."""
    deep = not marks.stop_count or 2 * count > marks.resume_count
    return deep and (not marks.stop_bytes or 2 * octets > marks.resume_bytes)
