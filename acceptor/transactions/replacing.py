"""Commits that replace messages of full queues: they ack some, and publish others that may be a little larger.

Such a commit passes within the overshoot though the queue is saturated, so the queue's resume is too late a signal for
it; without other consumers there is none. It is rechecked when the depth has fallen by as much as it lacked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from acceptor.gates.gate import UNLIMITED, Gate, WaitingChannel
from acceptor.gates.queue_gate import QueueGate

Lacking = Mapping[Gate, int | None]
"""The gates that are closed to a transaction, each with the bytes by which it replaces messages with larger ones; None
if the gate must open for it.
"""


def excess(queue_gate: QueueGate, freed: Sequence[int], count: int, nbytes: int) -> int | None:
    """Return by how many bytes a transaction that publishes `count` messages and `nbytes` bytes to a queue, and removes
    `freed` messages and bytes from it, makes it larger. None if the queue counts messages, and more come than leave.
    """
    if queue_gate.marks.stop_count and freed[0] < count:
        return None
    return max(nbytes - freed[1], 0) if queue_gate.marks.stop_bytes else 0


def has_room_for(queue_gate: QueueGate, excess: int) -> bool:
    """Whether a queue may become larger by `excess` bytes because of a transaction that replaces messages.

    A message that is published again is often a header larger than before: that much more may come within the
    overshoot.
    """
    marks = queue_gate.marks
    left = marks.stop_bytes + marks.overshoot_bytes - queue_gate.depth()[1] - queue_gate.in_flight_bytes
    return not excess or excess <= left // queue_gate.acceptors


class Replacing:
    """The channels whose commits wait for nothing but that, and the excess for each queue, by gate."""

    def __init__(self) -> None:
        self.waiting: dict[WaitingChannel, dict[QueueGate, int]] = {}

    def wait(self, channel: WaitingChannel, lacking: Lacking) -> None:
        """A channel's commit begins to wait at closed gates."""
        found = {gate: more for gate, more in lacking.items() if isinstance(gate, QueueGate) and more is not None}
        if len(found) == len(lacking):
            self.waiting[channel] = found

    def leave(self, channel: WaitingChannel) -> None:
        """A channel's commit is tried again, or given up."""
        self.waiting.pop(channel, None)

    def recheck(self) -> None:
        """Admit the channels for whose commits there is room now, in the order in which they began to wait."""
        for channel, found in list(self.waiting.items()):
            if all(has_room_for(queue_gate, more) for queue_gate, more in found.items()):
                channel.admit(UNLIMITED)
