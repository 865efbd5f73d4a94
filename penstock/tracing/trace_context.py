"""The place of a span in its trace, as processes pass it on, and as clients write it into a header (W3C Trace Context).

https://www.w3.org/TR/trace-context/, 3.2
"""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple

HEADER = "traceparent"
"""The header of a message by which OpenTelemetry's instrumentations of clients pass a trace on."""

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_INVALID = "ff"
_SAMPLED = 1
_TRACE_BYTES = 16
_SPAN_BYTES = 8


class TraceContext(NamedTuple):
    """The ids of a trace (16 bytes) and of the span that is the parent of what comes next (8 bytes); b"" if that has
    none.
    """

    trace: bytes
    span: bytes

    def below(self, span: bytes) -> TraceContext:
        """Return the place below a span of this trace."""
        return TraceContext(self.trace, span)


def new_trace() -> TraceContext:
    """Return the place of the first span of a new trace."""
    return TraceContext(secrets.token_bytes(_TRACE_BYTES), b"")


def new_span() -> bytes:
    """Return the id of a new span."""
    return secrets.token_bytes(_SPAN_BYTES)


def sampled_parent(traceparent: object) -> TraceContext | None:
    """Return the place that the header of a message names; None if it names none, or its trace is not recorded."""
    if isinstance(traceparent, bytes | bytearray):
        traceparent = traceparent.decode("ascii", "replace")
    found = _TRACEPARENT.fullmatch(traceparent) if isinstance(traceparent, str) else None
    if found is None:
        return None
    version, trace, span, flags, further = found.groups()
    if version == _INVALID or (version == "00" and further) or not int(trace, 16) or not int(span, 16):
        return None
    return TraceContext(bytes.fromhex(trace), bytes.fromhex(span)) if int(flags, 16) & _SAMPLED else None
