"""How long a producer is held, and what follows: `x-hold`, policy key `hold`.

`forever`, or rungs in order, each with its duration; the last rung has none:

    withhold 5 s, park 30 s, pause 5 min, reject 10 min, close-channel 1 min, close-connection, hold-off 5 s

    withhold          confirms are withheld; publishes are parked up to a multiple of the parking budget
    park              publishes are parked within the budget
    pause             the socket is read by the drip from the first parked message on
    reject            publishes without room are refused, and so are those parked before
    close-channel     311; a channel of the same connection that is held again within this time, and reaches this rung,
                      goes on to the next one
    close-connection  506; has no duration
    hold-off          the user's next connect from that address is refused for this long, twice as long each time
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from penstock.limits.means import nearest
from penstock.text.durations import seconds_of

FOREVER = "forever"
WITHHOLD, PARK, PAUSE, REJECT = "withhold", "park", "pause", "reject"
CLOSE_CHANNEL, CLOSE_CONNECTION, HOLD_OFF = "close-channel", "close-connection", "hold-off"
RUNGS = (WITHHOLD, PARK, PAUSE, REJECT, CLOSE_CHANNEL, CLOSE_CONNECTION, HOLD_OFF)


class Rung(NamedTuple):
    """A step of a ladder. `seconds`: until the next rung, None for the last one; of a hold-off, how long the first one
    lasts.
    """

    name: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Ladder:
    """The rungs in order; no rungs: a producer is held for ever."""

    rungs: tuple[Rung, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rungs)


@lru_cache(1024)
def ladder_of(text: str) -> Ladder:
    """The ladder that a text describes. ValueError explains a wrong text."""
    if text.strip() == FOREVER:
        return Ladder()
    rungs = tuple(_rung(part) for part in text.split(","))
    for before, after in pairwise(rungs):
        if RUNGS.index(before.name) >= RUNGS.index(after.name):
            raise ValueError(f"'{after.name}' does not come after '{before.name}': the order is {', '.join(RUNGS)}")
        if before.seconds is None and before.name != CLOSE_CONNECTION:
            raise ValueError(f"'{before.name}' needs a time, there is a rung after it")
        if after.name == HOLD_OFF and before.name != CLOSE_CONNECTION:
            raise ValueError(f"'{HOLD_OFF}' comes right after '{CLOSE_CONNECTION}'")
    if rungs[0].name == HOLD_OFF:
        raise ValueError(f"'{HOLD_OFF}' comes right after '{CLOSE_CONNECTION}'")
    if rungs[-1].seconds is not None and rungs[-1].name != HOLD_OFF:
        raise ValueError(f"'{rungs[-1].name}' is the last rung and lasts as long as the queue is full: it has no time")
    return Ladder(rungs)


def _rung(part: str) -> Rung:
    name, _, time = part.strip().partition(" ")
    if name not in RUNGS:
        raise ValueError(f"'{name}' is not a rung{nearest(name, (FOREVER, *RUNGS))}")
    if name == CLOSE_CONNECTION and time:
        raise ValueError(f"'{CLOSE_CONNECTION}' has no time: it ends the connection")
    return Rung(name, seconds_of(time) if time.strip() else None)
