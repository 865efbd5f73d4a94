# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The boundaries of TLS records in what a client sends (RFC 8446, 5.1; RFC 5246, 6.2.1)."""

from __future__ import annotations

import cython

if not cython.compiled:
    C_HEADER = 5


class Records:
    """Passes over the records of one client, which may be cut anywhere. `complete` is how many the last call ended."""

    def __init__(self) -> None:
        self.header = 0
        self.rest = 0
        self.complete = 0

    def take(self, data: memoryview, start: int, end: int, most: int) -> int:
        """Pass over data from `start` until `end`, or until the end of `most` records; return where it stops."""
        self.complete = 0
        while start < end and self.complete < most:
            if self.header < C_HEADER:
                if self.header >= 3:  # after type and version: the length
                    self.rest = self.rest << 8 | data[start]
                self.header += 1
                start += 1
            else:
                step = min(self.rest, end - start)
                self.rest -= step
                start += step
            if self.header == C_HEADER and not self.rest:
                self.header = 0
                self.complete += 1
        return start
