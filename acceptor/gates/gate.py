"""The contract between gates, which publishes must pass, and the channels that wait there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Protocol

from acceptor.gates.cause import HoldCause
from acceptor.gates.terms import Terms

if TYPE_CHECKING:
    from acceptor.gates.permissions import Access

UNLIMITED = 1 << 62
# The least that a channel is admitted with while there is room: turns of single messages would cost too much.
SHARE = 64
SHARE_BYTES = 64 * 1024


class WaitingChannel(Protocol):
    """A channel that may wait at gates. `admit` has it publish its parked messages, as far as there is room.

    `held_by` is the gate that its client was notified of; None while the channel is free.
    """

    @property
    def access(self) -> Access: ...

    @property
    def held_by(self) -> Gate | None: ...

    def admit(self, most: int) -> None: ...

    def pass_lane(self, most: int) -> int:
        """Publish messages parked for priority lanes, at most `most`. Return how many were sent."""
        ...

    def waits_for_lane(self) -> bool: ...

    def share(self, by: str) -> tuple[Hashable, int]:
        """Return the key of the share that the channel takes its turns in, and the weight of that share."""
        ...

    def messages_parked(self) -> int:
        """Return the number of publishes that wait in it."""
        ...

    def size(self) -> int:
        """Return the approximate size of the next parked message in bytes; at least 1."""
        ...

    def held_at(self, gate: Gate) -> None: ...

    def unwarn(self) -> None:
        """Retract the early notice of a stop (acceptor/holding/early.py): the stop is over."""
        ...

    def recheck_warning(self) -> None:
        """Retract the early notice if it does not concern the channel."""
        ...

    def reconsider(self) -> None: ...


class Gate(Protocol):
    """A condition that a publish must pass, such as the limit of a queue or the link to a shard."""

    @property
    def waiting(self) -> OrderedDict[WaitingChannel, None]: ...

    def describe(self) -> HoldCause:
        """Describe what holds the channels that wait here, with the numbers of this moment."""
        ...

    def room(self) -> tuple[int, int]:
        """Return how much may be sent at present: (messages, bytes)."""
        ...

    def some_room(self) -> tuple[int, int]:
        """Return a cheap lower bound of `room`, which is 0 only where `room` is: enough for most publishes."""
        ...

    def admits(self, count: int, nbytes: int) -> bool: ...

    def is_saturated(self) -> bool: ...

    def serve(self) -> None: ...

    @property
    def opens_with_time(self) -> bool:
        """Whether no event announces new room, so that the gate must be polled (`acceptor.gates.metered`)."""
        ...

    @property
    def terms(self) -> Terms | None:
        """The terms on which the gate holds channels; None unless it stands for one queue or several together."""
        ...


def serve(gate: Gate) -> None:
    """Admit the waiting channels of a gate, one after the other, each with an equal share of the room."""
    turns = len(gate.waiting)
    while turns and gate.waiting:
        room, nbytes = gate.room()
        if room <= 0 or nbytes <= 0:
            return
        channel, _ = gate.waiting.popitem(last=False)
        most = max(room // turns, SHARE) if room < UNLIMITED else max(nbytes // turns // channel.size(), 1)
        channel.admit(most)
        turns -= 1
        if turns and next(iter(gate.waiting), None) is channel:
            return  # it needs more room at once than there is: no other channel goes before it
