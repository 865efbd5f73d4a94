"""How deep queues got while they held sessions: looked at once for a queue, however many it holds.

Whoever begins to be held while the queue is as deep as ever since somebody else began has the same peak from then on.
So a queue has a line of peaks, each lower than the one before it, and only the last of them grow.
"""

from __future__ import annotations

from acceptor.gate import Gate
from acceptor.inlet import Inlet


class Peak:
    """The deepest since some time, in messages; 0 where that cannot be said. `users` are those who began then."""

    __slots__ = ("depth", "users")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.users = 0


class Peaks:
    """`lines` are the peaks that are in use, by gate, the oldest first."""

    def __init__(self) -> None:
        self.lines: dict[Gate, list[Peak]] = {}

    def begin(self, gate: Gate) -> Peak:
        """Somebody begins to be held."""
        line, depth = self.lines.setdefault(gate, []), depth_of(gate)
        raise_to(line, depth)
        if not line or line[-1].depth > depth:
            line.append(Peak(depth))
        line[-1].users += 1
        return line[-1]

    def end(self, gate: Gate, peak: Peak) -> None:
        """Somebody is held no longer, and has this peak."""
        line = self.lines[gate]
        raise_to(line, depth_of(gate))
        peak.users -= 1
        if not peak.users:
            line.remove(peak)
            if not line:
                del self.lines[gate]

    def look(self) -> None:
        """From time to time."""
        for gate, line in self.lines.items():
            raise_to(line, depth_of(gate))


def raise_to(line: list[Peak], depth: int) -> None:
    for peak in reversed(line):
        if peak.depth >= depth:
            return
        peak.depth = depth


def depth_of(gate: Gate) -> int:
    return gate.depth()[0] if isinstance(gate, Inlet) and not gate.closed else 0
