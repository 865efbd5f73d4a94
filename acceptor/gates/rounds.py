"""Rounds of the room in a queue that has been full lately: they divide it among producers by their weights.

A full queue lets in as much as has left it, again and again. If the channels that wait when it resumes got all of that,
a producer would get as much as it has in flight: one with a window of 20 confirms has 20 messages there, one with 2,000
has them all. So what each share (acceptor/gates/fair.py) has had is remembered from stop to stop, and its room is given
in rounds: a share that has used up its part of a round waits for those that have not, even if these have nothing to
publish at present, as they may have to receive their confirms first. They are waited for only as long as

 - they have published `LINGER_SECONDS` ago at most, or in the last cycle if the queue has resumed so lately,
 - the round has waited for less than `PATIENCE_SECONDS`, and
 - the queue is deeper than half of its resume mark, so that its consumers lack nothing.

Each of several acceptors has its part, by the weights at each, of what all let in, and one ahead of its part waits for
the others likewise. The queue's gauge says how much all let in: in messages, each as large as those that are there.

      calm ──(a channel has waited)──▶ in rounds ──(none has for `RECENT_SECONDS`)──▶ calm
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from acceptor.gates.gate import SHARE, SHARE_BYTES
from penstock.limits.watermarks import Marks

if TYPE_CHECKING:
    from acceptor.gates.fair import Share
    from acceptor.gates.gate import WaitingChannel
    from acceptor.gates.metered import Metered
    from acceptor.gates.queue_gate import QueueGate

# Longer than a client near by takes to receive its confirms and publish more.
LINGER_SECONDS = 0.02
PATIENCE_SECONDS = 0.05
# Seconds between checks whether shares have been waited for long enough; and while none is waited for.
RECHECK_SECONDS = 0.005
RECHECK_LATER_SECONDS = 0.1
RECENT_SECONDS = 2.0
FREE = 1 << 62
"""How much may be sent if no share is to be waited for."""


class Rounds:
    """The rounds of one queue gate, at one acceptor. `contended` are the queue gates whose queues have been full
    lately.

    Since `waited_at` no channel has had to wait; `before` and `resumed_at` are the last two resumes of the queue that
    were noticed, `epoch` the flow epoch of the last; since `held_since` shares wait for others; all in seconds by
    `clock`. The queue had taken in `published` messages at the last check; `left` is how much remains of this
    acceptor's part.
    """

    __slots__ = (
        "before", "clock", "contended", "epoch", "held_since", "left", "metered", "published", "resumed_at",
        "waited_at",
    )  # fmt: skip

    def __init__(self, clock: Callable[[], float], metered: Metered, contended: dict[QueueGate, None]) -> None:
        self.clock = clock
        self.metered = metered
        self.contended = contended
        self.epoch = -1
        self.before = self.resumed_at = self.waited_at = 0.0
        self.held_since: float | None = None
        self.left = 0.0
        self.published = 0

    def begin(self, queue_gate: QueueGate) -> None:
        """Begin rounds, or go on with them: a channel that has waited is to be let in."""
        self.waited_at = self.clock()
        self.contended[queue_gate] = None
        queue_gate.waiting.remembers = True
        epoch = queue_gate.flow_epoch()
        if epoch != self.epoch:
            self.epoch = epoch
            self.before, self.resumed_at = self.resumed_at, self.waited_at
            self.held_since = None
        if self.has_part(queue_gate):
            self.add_own_part(queue_gate)

    def has_part(self, queue_gate: QueueGate) -> bool:
        """Whether channels at other acceptors share the room."""
        return queue_gate.weights.own < queue_gate.weights.total

    def add_own_part(self, queue_gate: QueueGate) -> None:
        """Add this acceptor's part of what all have let in since the last check; how far it may be ahead or behind is
        bounded.
        """
        queue = queue_gate.gauges.queue_read(queue_gate.slot)
        if queue is not None:
            published = queue.counters.published
            more, self.published = float(max(published - self.published, 0)), published
            if not queue_gate.counts():
                count, nbytes = queue_gate.depth()
                more *= nbytes / max(count, 1)
            share = queue_gate.weights.share()
            most = self.ahead(queue_gate) + cycle(queue_gate) * share
            self.left = max(min(self.left + more * share, most), -cycle(queue_gate))

    def ahead(self, queue_gate: QueueGate) -> float:
        """Return how far this acceptor may be ahead of others, as its messages in flight are not in the gauge yet."""
        part = cycle(queue_gate) * queue_gate.weights.share()
        return max(part / 2, SHARE if queue_gate.counts() else SHARE_BYTES)

    def forgive(self, queue_gate: QueueGate) -> None:
        """Extend this acceptor's part, as the others do not use theirs."""
        self.left += self.ahead(queue_gate)

    def charge(self, queue_gate: QueueGate, channel: WaitingChannel, count: int, nbytes: int) -> None:
        """Charge a channel's share for what the channel has sent. The only share owes nothing."""
        share = queue_gate.waiting.share_of(channel)
        amount = count if queue_gate.counts() else nbytes
        share.surplus -= amount
        if len(queue_gate.waiting.remembered) == 1:
            share.surplus = max(share.surplus, 0)
        share.seen = self.clock()
        self.left -= amount

    def newcomer(self, queue_gate: QueueGate, channel: WaitingChannel) -> int:
        """Return how much a channel that has not waited may send, in messages or bytes."""
        line = queue_gate.waiting
        if line.first is not None or not line.all_spent():
            return 0
        if self.has_part(queue_gate):
            self.add_own_part(queue_gate)
            if self.left <= 0 and self.awaits(queue_gate):
                return 0
        share = line.share_of(channel)
        if share.channels:
            return 0
        if share.surplus > 0:
            return share.surplus
        return 0 if line or self.awaits(queue_gate) else FREE

    def has_had_its_part(self, queue_gate: QueueGate) -> bool:
        """Whether this acceptor is ahead of the others."""
        return self.left <= 0 and self.has_part(queue_gate)

    def awaits(self, queue_gate: QueueGate) -> bool:
        """Whether the shares that wait here, which have used up their parts, are to wait for those that have not."""
        now = self.clock()
        if not is_deep(queue_gate.marks, *queue_gate.depth()) or not self.has_patience(queue_gate, now):
            self.held_since = None
            return False
        if self.held_since is None:
            self.held_since = now
        self.metered.closed[queue_gate] = None
        return True

    def due(self) -> float:
        """Return in how many seconds to check the queue gate again."""
        return RECHECK_SECONDS if self.held_since is not None else RECHECK_LATER_SECONDS

    def has_patience(self, queue_gate: QueueGate, now: float) -> bool:
        """Whether there still is a share, or another acceptor, to wait for."""
        if self.held_since is not None and now >= self.held_since + PATIENCE_SECONDS:
            return False
        if self.has_had_its_part(queue_gate):
            return True
        return any(self.lingers(share, now) for share in queue_gate.waiting.remembered.values())

    def lingers(self, share: Share, now: float) -> bool:
        """Whether a share that has nothing to publish may have something soon."""
        if share.channels or share.surplus <= 0 or share.seen < self.before:
            return False
        return now < max(share.seen, self.resumed_at) + LINGER_SECONDS

    def weight(self, queue_gate: QueueGate) -> int:
        """Return the total weight of the shares of the room here, waiting or not."""
        line = queue_gate.waiting
        return sum(share.weight for share in line.remembered.values()) if line.remembered else line.weight

    def end_if_over(self, queue_gate: QueueGate) -> None:
        """Forget shares that have been away for long, and end rounds that are over; called from time to time."""
        line, now = queue_gate.waiting, self.clock()
        if line or queue_gate.is_saturated():
            self.waited_at = now
        if queue_gate.pace is not None or now >= self.waited_at + RECENT_SECONDS:
            self.contended.pop(queue_gate, None)
            line.forget()
            return
        for share in list(line.remembered.values()):
            if not share.channels and now >= share.seen + RECENT_SECONDS:
                del line.remembered[share.key]


def cycle(queue_gate: QueueGate) -> int:
    """Return about how much the queue lets in between a resume and the next stop, in messages or bytes."""
    marks = queue_gate.marks
    return marks.stop_count - marks.resume_count if queue_gate.counts() else marks.stop_bytes - marks.resume_bytes


def is_deep(marks: Marks, count: int, nbytes: int) -> bool:
    """Whether a queue is deeper than half of its resume marks."""
    deep = not marks.stop_count or 2 * count > marks.resume_count
    return deep and (not marks.stop_bytes or 2 * nbytes > marks.resume_bytes)
