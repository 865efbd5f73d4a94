"""The spans of one process: what it did with traced messages, and how long that took.

    publish ─┬─ confirm                     the acceptor of the producer
             └─ queue ─┬─ store             the shard; once for each queue
                       ├─ deliver           the acceptor of the consumer
                       └─ process           the shard: in the consumer's hands

A process records a span when it is over, and keeps the latest ones until somebody asks. It sends them to nobody: a
process that routes messages waits for no collector.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from penstock.tracing.trace_context import TraceContext

KEPT = 2000
"""Spans that a process keeps."""


class Spans:
    """The latest spans of a process, which is named by its role, index and incarnation. They are numbered from 1."""

    def __init__(self, process: str) -> None:
        self.process = process
        self.last = 0
        self._kept: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def put(self, place: TraceContext, span: bytes, name: str, begin: int, end: int, **attributes: Any) -> None:
        """Record a span below a place in a trace, with its id, times in µs of the node's clock, and facts about it."""
        self.last += 1
        self._kept.append(
            {
                "trace": place.trace.hex(),
                "span": span.hex(),
                "parent": place.span.hex() or None,
                "name": name,
                "begin": begin,
                "end": max(begin, end),
                "process": self.process,
                "attributes": attributes,
            }
        )

    def report(self, after: int) -> dict[str, Any]:
        """Return {last, lost, spans}: those that are kept of the spans after a number, how many are not, and the number
        of the last one.
        """
        new = max(self.last - after, 0)
        kept = min(new, len(self._kept))
        return {"last": self.last, "lost": new - kept, "spans": [*self._kept][len(self._kept) - kept :]}
