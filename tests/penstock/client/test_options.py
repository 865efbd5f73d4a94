"""The options of a producer: their bounds, and the delays between attempts to connect."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.options import FIRST_DELAY, Options


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"window_count": 0}, "a window has room for one message at least"),
        ({"window_bytes": 0}, "a window has room for one message at least"),
        ({"report_seconds": 0}, "seconds are more than 0"),
        ({"connect_seconds": 0}, "seconds are more than 0"),
        ({"reconnect_seconds": -1}, "seconds are more than 0"),
        ({"close_seconds": -0.1}, "close_seconds is 0 or more, or None"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        Options(**options)


def test_the_smallest_options_are_possible() -> None:
    options = Options(window_count=1, window_bytes=1, close_seconds=0, give_up_seconds=0)
    assert (options.window_count, options.close_seconds, options.give_up_seconds) == (1, 0, 0)


@given(st.integers(0, 10**6), st.floats(0.01, 1e6))
def test_a_delay_doubles_up_to_the_longest_and_has_jitter_of_a_half(attempt: int, longest: float) -> None:
    whole = min(FIRST_DELAY * 2**attempt if attempt < 50 else longest, longest)
    options = Options(reconnect_seconds=longest)
    assert whole / 2 <= options.delay(attempt) <= whole


def test_clients_spread_out() -> None:
    assert len({Options().delay(3) for _ in range(10)}) > 1
