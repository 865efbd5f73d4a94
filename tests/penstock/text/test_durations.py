"""Lengths of time as people write and read them."""

from __future__ import annotations

import pytest

from penstock.text.durations import seconds_of, shown


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250 ms", 0.25), ("90s", 90), ("10m", 600), (" 10 min ", 600), ("1.5 h", 5400), ("2d", 172_800), ("0 s", 0)],
)
def test_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "-1 s", "1 week", "1e3 s", "10 M", "1 s 2 s", "9999999999 s", "inf s"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time: give a number and one of ms, s, m, min, h, d"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (3.24, "3.2 s"), (41, "41 s"), (119.6, "2 min"), (725, "12 min"), (7200, "2 h"), (180_000, "2 d")],
)
def test_shown(seconds: float, text: str) -> None:
    assert shown(seconds) == text
