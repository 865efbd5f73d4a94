"""The turns of the topology that were published last: what a follower missed is sent to it, and not all there is.

The store keeps the last of them as well, so that the next life of the router can say what the last one may have said to
some and not to others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

TURNS = 1024
OCTETS = 16 * 1024 * 1024


class Recent:
    """Published turns, each as its frame, without a gap between their versions; the oldest go first."""

    def __init__(self, turns: Iterable[tuple[int, bytes]] = ()) -> None:
        self._turns: deque[tuple[int, bytes]] = deque()
        self._octets = 0
        for version, frame in turns:
            self.add(version, frame)

    def add(self, version: int, frame: bytes) -> None:
        if self._turns and self._turns[-1][0] != version - 1:
            self._turns.clear()
            self._octets = 0
        self._turns.append((version, frame))
        self._octets += len(frame)
        while self._turns and (len(self._turns) > TURNS or self._octets > OCTETS):
            self._octets -= len(self._turns.popleft()[1])

    def since(self, have: int, version: int) -> list[bytes] | None:
        """What leads from the version `have` to this one; None if that is not known any more."""
        if have == version:
            return []
        missed = [frame for known, frame in self._turns if have < known <= version]
        return missed if have >= 0 and len(missed) == version - have else None
