"""Wrong passwords, by address and user: how many are verified, and for how long no other is.

An address may be wrong about a user a few times. From then on one password is verified at a time, and each wrong one
doubles the time until the next is verified: an attacker gets a few tries a minute, however many sockets it has. Other
users at that address, and that user elsewhere, are not refused for it. A right password resets the count.

Memory is bounded: beyond `MOST` records the one least recently used is forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from penstock.text.durations import shown

FREE = 5
"""From this many wrong passwords on, each delays the next try."""
FIRST_SECONDS = 1.0
MOST_SECONDS = 60.0
FORGOTTEN_SECONDS = 600.0
MOST = 10_000
DOUBLINGS = 30
EVERYWHERE = ""


@dataclass(slots=True)
class Guesser:
    """The record of an address and a user: `wrong` passwords since the last right one, `under_way` those being
    verified, `until` when no other is tried, `seen` the time of the last try; in seconds.
    """

    wrong: int = 0
    under_way: int = 0
    until: float = 0.0
    seen: float = 0.0

    def may_try(self, now: float) -> bool:
        """Whether a password may be verified."""
        return now >= self.until and (self.wrong + self.under_way < FREE or not self.under_way)

    def refusal(self, now: float) -> str:
        """Return why no password is verified at present, for the log."""
        return f"{self.wrong} wrong passwords, no other one for {shown(max(self.until - now, 0.0))}"


class Guesses:
    """The records of one acceptor. The record of a user over all addresses has the address ""."""

    def __init__(self) -> None:
        self._of: OrderedDict[tuple[str, str], Guesser] = OrderedDict()

    def of(self, address: str, user: str, now: float) -> Guesser:
        """Return the record of an address and a user; after a long quiet it starts from zero."""
        guesser = self._of.setdefault((address, user), Guesser())
        self._of.move_to_end((address, user))
        if now - guesser.seen > FORGOTTEN_SECONDS:
            guesser.wrong = 0
        guesser.seen = now
        if len(self._of) > MOST:
            self._of.popitem(last=False)
        return guesser

    def of_user(self, user: str, now: float) -> Guesser:
        """Return the record of a user over all addresses."""
        return self.of(EVERYWHERE, user, now)

    def was_wrong(self, address: str, user: str, now: float) -> float:
        """Count a wrong password; return for how many seconds no other one is tried."""
        self.of_user(user, now).wrong += 1
        guesser = self.of(address, user, now)
        guesser.wrong += 1
        if guesser.wrong < FREE:
            return 0.0
        seconds = min(FIRST_SECONDS * 2.0 ** min(guesser.wrong - FREE, DOUBLINGS), MOST_SECONDS)
        guesser.until = now + seconds
        return seconds

    def was_right(self, address: str, user: str, now: float) -> None:
        """Reset the count of an address and a user."""
        self.of(address, user, now).wrong = 0

    def report(self, now: float) -> list[dict[str, Any]]:
        """Return the addresses and users for which no password is tried at present."""
        return [
            {"user": user, "address": address, "wrong": guesser.wrong, "seconds": round(guesser.until - now, 3)}
            for (address, user), guesser in self._of.items()
            if guesser.until > now
        ]
