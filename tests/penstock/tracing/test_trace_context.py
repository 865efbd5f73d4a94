"""Places in traces, and the headers by which clients pass them on; examples of the W3C's recommendation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tracing.trace_context import TraceContext, new_span, new_trace, sampled_parent

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PLACE = TraceContext(bytes.fromhex(TRACE), bytes.fromhex(SPAN))


@pytest.mark.parametrize(
    "header",
    [
        f"00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01".encode(),
        f"00-{TRACE}-{SPAN}-ff",
        f"cc-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like",
    ],
)
def test_a_parent_that_is_sampled(header: object) -> None:
    assert sampled_parent(header) == PLACE


@pytest.mark.parametrize(
    "header",
    [
        None,
        7,
        "",
        f"00-{TRACE}-{SPAN}-00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01\n",
        b"\xff" * 55,
    ],
)
def test_no_parent_or_one_that_is_not_recorded(header: object) -> None:
    assert sampled_parent(header) is None


@given(st.text() | st.binary() | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", fullmatch=True))
def test_any_header_is_read_or_ignored(header: str | bytes) -> None:
    found = sampled_parent(header)
    assert found is None or (len(found.trace), len(found.span)) == (16, 8)


def test_new_places() -> None:
    first, second = new_trace(), new_trace()
    assert first.trace != second.trace and first.span == b""
    span = new_span()
    assert first.below(span) == TraceContext(first.trace, span)
