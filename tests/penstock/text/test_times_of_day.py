"""Times of day: their notation, and how long it is until the next span."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.text.times_of_day import DAY_SECONDS, Span, seconds_until, span_of

HOUR = 3600


def test_spans_are_read() -> None:
    assert span_of("22:00-06:30") == Span(22 * HOUR, 6 * HOUR + 1800)
    assert span_of(" 00:00 - 24:00 ") == Span(0, 0)
    assert span_of("12:05-13:00") == Span(12 * HOUR + 300, 13 * HOUR)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("22-06", "'22-06' is not a span of the day such as 22:00-06:00"),
        ("", "'' is not a span of the day such as 22:00-06:00"),
        ("25:00-06:00", "there is no time 25:00, in '25:00-06:00'"),
        ("01:60-06:00", "there is no time 01:60, in '01:60-06:00'"),
        ("01:00-24:01", "there is no time 24:01, in '01:00-24:01'"),
        ("06:00-06:00", "'06:00-06:00' lasts no time; for the whole day give no span, or 00:00-24:00"),
    ],
)
def test_other_texts_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match="^" + reason.replace("(", r"\(") + "$"):
        span_of(text)


def test_spans_go_over_midnight() -> None:
    night = span_of("22:00-06:00")
    assert [night.seconds_until(second) for second in (0, 6 * HOUR - 1, 6 * HOUR, 22 * HOUR - 1, 22 * HOUR)] == [
        0, 0, 16 * HOUR, 1, 0,
    ]  # fmt: skip
    assert {span_of("00:00-24:00").seconds_until(second) for second in range(0, DAY_SECONDS, 61)} == {0}


SECONDS = st.integers(0, DAY_SECONDS - 1)


@given(spans=st.lists(st.builds(Span, SECONDS, SECONDS), max_size=4), second=SECONDS)
def test_the_next_span_is_the_nearest(spans: list[Span], second: int) -> None:
    wait = seconds_until(spans, second)
    then = (second + wait) % DAY_SECONDS
    assert seconds_until(spans, then) == 0
    if wait:
        assert then in {span.begin for span in spans}
        assert all(seconds_until(spans, (second + part * wait // 7) % DAY_SECONDS) for part in range(7))
