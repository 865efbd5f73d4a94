"""Times of day as people write them: "22:00-06:00, 12:30-13:00"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

DAY_SECONDS = 86400
_SPAN = re.compile(r"(\d\d):(\d\d)\s*-\s*(\d\d):(\d\d)")


class Span(NamedTuple):
    """A part of each day, in seconds since midnight: from `begin` to before `end`, over midnight if that is earlier."""

    begin: int
    end: int

    def seconds_until(self, second: int) -> int:
        """Return how long after a second of the day it begins; 0 while it lasts."""
        lasts = (self.end - self.begin) % DAY_SECONDS or DAY_SECONDS
        return 0 if (second - self.begin) % DAY_SECONDS < lasts else (self.begin - second) % DAY_SECONDS


def span_of(text: str) -> Span:
    """Read a span such as "22:00-06:00"; 24:00 is midnight. ValueError for anything else, and for a span of no time."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"'{text}' is not a span of the day such as 22:00-06:00")
    hours = [(int(found[each]), int(found[each + 1])) for each in (1, 3)]
    for hour, minute in hours:
        if minute > 59 or hour * 60 + minute > 24 * 60:
            raise ValueError(f"there is no time {hour:02}:{minute:02}, in '{text}'")
    begin, end = (hour * 3600 + minute * 60 for hour, minute in hours)
    if begin == end:
        raise ValueError(f"'{text}' lasts no time; for the whole day give no span, or 00:00-24:00")
    return Span(begin % DAY_SECONDS, end % DAY_SECONDS)


def seconds_until(spans: Sequence[Span], second: int) -> int:
    """Return how long after a second of the day the next span begins; 0 within one, or if there are no spans."""
    return min((span.seconds_until(second) for span in spans), default=0)
