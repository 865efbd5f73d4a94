"""The turns of the topology that were published last: a follower that missed some gets these, not a whole snapshot.

The store keeps the last of them as well, so that the next incarnation of the router can repeat turns that perhaps only
some followers received.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

TURNS = 1024
BYTES = 16 * 1024 * 1024


class Recent:
    """Published turns as frames, without gaps between their versions; the oldest are dropped first."""

    def __init__(self, turns: Iterable[tuple[int, bytes]] = ()) -> None:
        self._turns: deque[tuple[int, bytes]] = deque()
        self._nbytes = 0
        for version, frame in turns:
            self.add(version, frame)

    def add(self, version: int, frame: bytes) -> None:
        """Add the turn that leads to a version. After a gap, all earlier turns are dropped."""
        if self._turns and self._turns[-1][0] != version - 1:
            self._turns.clear()
            self._nbytes = 0
        self._turns.append((version, frame))
        self._nbytes += len(frame)
        while self._turns and (len(self._turns) > TURNS or self._nbytes > BYTES):
            self._nbytes -= len(self._turns.popleft()[1])

    def since(self, have: int, version: int) -> list[bytes] | None:
        """Return the frames that lead from version `have` to `version`; None if they are not all there."""
        if have == version:
            return []
        missed = [frame for known, frame in self._turns if have < known <= version]
        return missed if have >= 0 and len(missed) == version - have else None
