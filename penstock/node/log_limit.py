"""Limits log lines per second: a client's repeated mistakes must neither fill the disk nor hide other lines.

Lines are counted by kind and peer, and by kind alone. The first ones of each second are written; the number of the
others is reported when the second is over. Times are seconds of the caller's clock.
"""

from __future__ import annotations

from dataclasses import dataclass

SECOND = 1.0
PEER_LINES = 20
"""Lines a second of one kind and peer."""
KIND_LINES = 200
"""Lines a second of one kind, of all peers together."""
COUNTERS_MOST = 4096
"""Distinct kinds and peers counted in a second."""
OTHERS = ""
"""The peer of lines that are counted by their kind alone."""


@dataclass(slots=True)
class LeftOut:
    """The number of suppressed lines of a kind and peer in a second; `level` is that of the last one."""

    kind: str
    peer: str
    level: str
    lines: int = 0


class LogLimit:
    """The line counters of the current second."""

    def __init__(self) -> None:
        self._since = 0.0
        self._written: dict[tuple[str, str], int] = {}
        self._written_of_kind: dict[str, int] = {}
        self._left_out: dict[tuple[str, str], LeftOut] = {}

    @property
    def has_left_out(self) -> bool:
        """Whether lines were suppressed that have not been reported."""
        return bool(self._left_out)

    def is_written(self, kind: str, peer: str, level: str) -> bool:
        """Whether to write a line; a suppressed line is counted."""
        if kind not in self._written_of_kind and len(self._written_of_kind) >= COUNTERS_MOST:
            kind = OTHERS
        of_kind = self._written_of_kind.get(kind, 0)
        if of_kind >= KIND_LINES or ((kind, peer) not in self._written and len(self._written) >= COUNTERS_MOST):
            peer = OTHERS
        of_peer = self._written.get((kind, peer), 0)
        if of_kind >= KIND_LINES or of_peer >= PEER_LINES:
            self._leave_out(kind, peer, level)
            return False
        self._written[kind, peer] = of_peer + 1
        self._written_of_kind[kind] = of_kind + 1
        return True

    def over(self, now: float) -> list[LeftOut]:
        """The suppressed lines of a second that is over, which begins a new one; empty during a second."""
        return self.rest(now) if now >= self._since + SECOND else []

    def rest(self, now: float) -> list[LeftOut]:
        """The lines suppressed so far; begins a new second."""
        left_out = list(self._left_out.values())
        self._since = now
        for counters in (self._written, self._written_of_kind, self._left_out):
            counters.clear()
        return left_out

    def _leave_out(self, kind: str, peer: str, level: str) -> None:
        left_out = self._left_out.setdefault((kind, peer), LeftOut(kind, peer, level))
        left_out.level = level
        left_out.lines += 1
