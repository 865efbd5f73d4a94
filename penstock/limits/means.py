"""The means of holding a producer: `x-throttle`, policy key `throttle`.

`auto` uses all of them, Channel.Flow only for clients known to honour it. A list uses exactly the means it names:

    flow       Channel.Flow, to every client except those that it breaks
    blocked    connection.blocked, to clients that declared it
    confirms   a publish to a full queue is confirmed when the queue has room again
    park       publishes without room are kept; without `park` the socket is paused from the first of them on
    pause      the socket is read by the drip once the parking budget is used up; without `pause`, at a multiple of it

A list needs `park` or `pause`: publishes that were read and find no room must wait somewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import lru_cache

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Means:
    """The means to use. `auto`: whether the table of clients decides about Channel.Flow."""

    flow: bool = True
    blocked: bool = True
    confirms: bool = True
    park: bool = True
    pause: bool = True
    auto: bool = True


ALL = Means()
WORDS = tuple(field.name for field in fields(Means) if field.name != AUTO)


@lru_cache(1024)
def means_of(text: str) -> Means:
    """The means that a text such as "blocked, confirms, park" names. ValueError explains a wrong text."""
    words = [word.strip() for word in text.split(",")]
    if words == [AUTO]:
        return ALL
    if AUTO in words:
        raise ValueError(f"'{AUTO}' must stand alone")
    for word in words:
        if word not in WORDS:
            raise ValueError(f"'{word}' is not a means to hold a producer{nearest(word, (AUTO, *WORDS))}")
    if not {"park", "pause"} & set(words):
        raise ValueError(f"'{text}' has neither park nor pause: publishes without room must wait somewhere")
    flow, blocked, confirms, park, pause = (word in words for word in WORDS)
    return Means(flow, blocked, confirms, park, pause, auto=False)


def nearest(word: str, known: tuple[str, ...]) -> str:
    """The end of an error message: the nearest known word, or else all known words."""
    found = get_close_matches(word, known, 1)
    return f"; did you mean '{found[0]}'?" if found else f"; there are {', '.join(known)}"
