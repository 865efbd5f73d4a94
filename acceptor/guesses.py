"""Wrong passwords, by address and user: how many are verified, and who waits for how long.

An address may be wrong about a user a few times. From then on one password is verified at a time, and each that is
wrong doubles the time until the next one is: whoever guesses gets a few tries a minute, however many sockets it has.
Other users at that address, and that user elsewhere, are not refused for it. A right password resets the count.

What is kept is bounded: of very many addresses the one is forgotten that was heard of least recently.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

FREE = 5
"""So many wrong passwords cost nothing."""
FIRST_SECONDS = 1.0
MOST_SECONDS = 60.0
FORGOTTEN_SECONDS = 600.0
MOST = 10_000
DOUBLINGS = 30
EVERYWHERE = ""


@dataclass(slots=True)
class Guesser:
    """An address and a user. `wrong` passwords since it was right, `under_way` those that are being verified, `until`
    when no more are; seconds.
    """

    wrong: int = 0
    under_way: int = 0
    until: float = 0.0
    seen: float = 0.0

    def may_try(self, now: float) -> bool:
        return now >= self.until and (self.wrong + self.under_way < FREE or not self.under_way)


class Guesses:
    """Those of one acceptor. A user's own, wherever from, are those of the address ""."""

    def __init__(self) -> None:
        self._of: OrderedDict[tuple[str, str], Guesser] = OrderedDict()

    def of(self, address: str, user: str, now: float) -> Guesser:
        """The record of an address and a user; after a long quiet it begins anew."""
        guesser = self._of.setdefault((address, user), Guesser())
        self._of.move_to_end((address, user))
        if now - guesser.seen > FORGOTTEN_SECONDS:
            guesser.wrong = 0
        guesser.seen = now
        if len(self._of) > MOST:
            self._of.popitem(last=False)
        return guesser

    def of_user(self, user: str, now: float) -> Guesser:
        return self.of(EVERYWHERE, user, now)

    def was_wrong(self, address: str, user: str, now: float) -> float:
        """Count a wrong password; for how long no other one is tried."""
        self.of_user(user, now).wrong += 1
        guesser = self.of(address, user, now)
        guesser.wrong += 1
        if guesser.wrong < FREE:
            return 0.0
        seconds = min(FIRST_SECONDS * 2.0 ** min(guesser.wrong - FREE, DOUBLINGS), MOST_SECONDS)
        guesser.until = now + seconds
        return seconds

    def was_right(self, address: str, user: str, now: float) -> None:
        self.of(address, user, now).wrong = 0

    def told(self, now: float) -> list[dict[str, Any]]:
        """Of whom no password is tried."""
        return [
            {"user": user, "address": address, "wrong": guesser.wrong, "seconds": round(guesser.until - now, 3)}
            for (address, user), guesser in self._of.items()
            if guesser.until > now
        ]
