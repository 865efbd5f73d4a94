"""What a publish must pass, and what waits there: the contract between gates and channels."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Protocol

from acceptor.terms import Terms

UNLIMITED = 1 << 62
# What a session is let in with at least, where there is room for it: turns of single messages would cost too much.
SHARE = 64
SHARE_OCTETS = 64 * 1024


class Session(Protocol):
    """A channel that may wait: it publishes what it has parked, as far as there is room, when it is let in."""

    held_by: Gate | None
    vhost: str

    def admit(self, most: int) -> None: ...

    def pass_lane(self, most: int) -> int:
        """Publish what is parked for priority lanes, at most so many messages; how many went."""
        ...

    def waits_for_lane(self) -> bool: ...

    def share(self, by: str) -> tuple[Hashable, int]:
        """What it shares its turns by, and with what weight."""
        ...

    def size(self) -> int:
        """Octets of the next message that it has parked, about; at least 1."""
        ...

    def held_at(self, gate: Gate) -> None: ...

    def unwarn(self) -> None:
        """It was told early of a stop (acceptor/early.py) that is over."""
        ...

    def look_at_warning(self) -> None:
        """It may not be concerned any more."""
        ...

    def reconsider(self) -> None: ...


class Gate(Protocol):
    """What a publish must pass: a queue with a limit, or the link to a shard."""

    @property
    def waiting(self) -> OrderedDict[Session, None]: ...

    def room(self) -> tuple[int, int]:
        """(messages, octets) that may be sent now."""
        ...

    def some_room(self) -> tuple[int, int]:
        """No more than `room`, and 0 only where that is: all that most publishes need to know."""
        ...

    def admits(self, count: int, octets: int) -> bool: ...

    def is_saturated(self) -> bool: ...

    def serve(self) -> None: ...

    @property
    def opens_with_time(self) -> bool:
        """Whether nobody tells when there is room again (`acceptor.metered`)."""
        ...

    @property
    def terms(self) -> Terms | None:
        """On which channels are held at it; None where it is not a queue's, or that of several."""
        ...


def serve(gate: Gate) -> None:
    """Let waiting sessions in, one after the other, each its share of the room there is."""
    turns = len(gate.waiting)
    while turns and gate.waiting:
        room, octets = gate.room()
        if room <= 0 or octets <= 0:
            return
        session, _ = gate.waiting.popitem(last=False)
        most = max(room // turns, SHARE) if room < UNLIMITED else max(octets // turns // session.size(), 1)
        session.admit(most)
        turns -= 1
        if turns and next(iter(gate.waiting), None) is session:
            return  # it needs more than there is, all at once: nobody goes before it
