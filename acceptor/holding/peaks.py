"""Peak depths of queues while they hold channels, at a cost that does not grow with the number of held channels.

A channel that comes to be held while the queue is as deep as it ever was since another one came shares that one's peak
from then on. So a queue has a line of peaks, each lower than the one before it, and only the last ones grow.
"""

from __future__ import annotations

from acceptor.gates.gate import Gate
from acceptor.gates.queue_gate import QueueGate


class Peak:
    """A peak depth since some time, in messages; 0 for a gate without a depth. `users` counts the holds sharing it."""

    __slots__ = ("depth", "users")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.users = 0


class Peaks:
    """The peaks in use: `lines` has those of each gate, the oldest first."""

    def __init__(self) -> None:
        self.lines: dict[Gate, list[Peak]] = {}

    def begin(self, gate: Gate) -> Peak:
        """Return the peak of a hold that begins."""
        line, depth = self.lines.setdefault(gate, []), depth_of(gate)
        raise_to(line, depth)
        if not line or line[-1].depth > depth:
            line.append(Peak(depth))
        line[-1].users += 1
        return line[-1]

    def end(self, gate: Gate, peak: Peak) -> None:
        """Update the peak of a hold that ends, and drop it if no other hold shares it."""
        line = self.lines[gate]
        raise_to(line, depth_of(gate))
        peak.users -= 1
        if not peak.users:
            line.remove(peak)
            if not line:
                del self.lines[gate]

    def update(self) -> None:
        """Update all peaks; called from time to time."""
        for gate, line in self.lines.items():
            raise_to(line, depth_of(gate))


def raise_to(line: list[Peak], depth: int) -> None:
    """Raise the peaks at the end of a line that are lower than the depth."""
    for peak in reversed(line):
        if peak.depth >= depth:
            return
        peak.depth = depth


def depth_of(gate: Gate) -> int:
    """Return the depth of a gate's queues in messages; 0 if it has none."""
    return gate.depth()[0] if isinstance(gate, QueueGate) and not gate.closed else 0
