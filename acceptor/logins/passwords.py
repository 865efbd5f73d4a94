"""Passwords of the node's own users.

They are verified one at a time in the background: a verification takes tens of milliseconds by design.

So that guessing does not delay other clients:

- A password that was right lately is known to all acceptors, and lets in at once (`acceptor.logins.known_passwords`).
- A password that was wrong lately is known as well: a client that keeps trying an old password costs nothing.
- Of the others, logins whose address and user had the fewest wrong passwords have their turn first.
- After too many wrong passwords further ones are refused unverified, for a time that doubles
(`acceptor.logins.guesses`).

Neither the answer nor its time says whether there is such a user: an unknown name waits its turn as others do, and is
wrong then. The connection answers a refusal after `REFUSAL_SECONDS` at the earliest.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from acceptor.clients.addresses import address_of
from acceptor.logins.background import Background, at_once
from acceptor.logins.guesses import Guesser, Guesses
from acceptor.logins.known_passwords import KnownPasswords
from penstock.control import passwords
from penstock.node.logs import get_logger
from penstock.text.durations import shown

if TYPE_CHECKING:
    from router.model.topology import Topology

log = get_logger()

WRONG_SECONDS = 30.0
"""How long a wrong password is remembered."""
WRONG_MAX = 10_000
NO_USER = "there is no such user"
WAITING_MAX = 1024
"""Logins that wait for their turn: more would time out before it comes."""

Decided = Callable[[str], None]
"""Receives the reason for a refusal, for the log; empty if the login is accepted."""
Verified = bool | Exception
"""Whether the password was right, or the error that prevented its verification."""


@dataclass(slots=True, order=True)
class Login:
    """A user and a password that wait for their turn, the smallest first; `decided` has the callback of each login with
    them.
    """

    wrong: int
    wrong_about: int
    number: int
    name: str = field(compare=False)
    password: str = field(compare=False)
    stored: str = field(compare=False)
    address: str = field(compare=False)
    digest: bytes = field(compare=False)
    guesser: Guesser = field(compare=False)
    decided: list[Decided] = field(compare=False)

    def verify(self) -> Verified:
        """Return whether the password is right, or the error."""
        try:
            return passwords.verify(self.stored, self.password)
        except Exception as error:
            return error

    def announce(self, reason: str) -> None:
        """Report the decision to all that wait for it."""
        for decided in self.decided:
            decided(reason)


class Passwords:
    """The passwords tried at one acceptor. The process sets `background` and `known`; `clock` gives seconds."""

    def __init__(self, topology: Topology, guesses: Guesses, clock: Callable[[], float]) -> None:
        self.background: Background = at_once
        self.known = KnownPasswords.of_process()
        self._users = topology.users
        self._clock = clock
        self._guesses = guesses
        self._wrong: OrderedDict[bytes, float] = OrderedDict()
        self._waiting: dict[bytes, Login] = {}
        self._turns: list[Login] = []
        self._number = 0
        self._verifying = False

    def check(self, name: str, password: str, host: str, decided: Decided) -> None:
        """Decide on a login from a host; `decided` is called now or later."""
        stored = self._stored(name)
        digest = self.known.digest(name, stored, password)
        if self.known.has(digest):
            decided("")
        elif self._wrong.get(digest, 0.0) > self._clock():
            decided(self._why_wrong(name))
        elif digest in self._waiting:
            self._waiting[digest].decided.append(decided)
        else:
            self._try(name, password, stored, address_of(host), digest, decided)

    def report(self) -> list[dict[str, Any]]:
        """Return the users and addresses for which no password is verified at present (`acceptor.questions`)."""
        return self._guesses.report(self._clock())

    def _try(
        self, name: str, password: str, stored: str, address: str, digest: bytes, decided: Decided
    ) -> None:  # fmt: skip
        now = self._clock()
        guesser, about = self._guesses.of(address, name, now), self._guesses.of_user(name, now)
        if not guesser.may_try(now):
            decided(guesser.refusal(now))
            return
        self._number += 1
        guesser.under_way += 1
        login = Login(
            guesser.wrong, about.wrong, self._number, name, password, stored, address, digest, guesser, [decided]
        )  # fmt: skip
        self._waiting[digest] = login
        heapq.heappush(self._turns, login)
        if len(self._turns) > WAITING_MAX:
            self._drop_last()
        self._next()

    def _drop_last(self) -> None:
        """Drop a login, as more wait than can have a turn in time: not the latest, but the one with the most wrong
        passwords.
        """
        last = max(self._turns)
        self._turns.remove(last)
        heapq.heapify(self._turns)
        self._ends(last)
        last.announce("too many logins at once")

    def _next(self) -> None:
        while self._turns and not self._verifying:
            login = heapq.heappop(self._turns)
            if passwords.is_slow(login.stored):
                self._verifying = True
                self.background(login.verify, partial(self._verified, login))
            else:
                self._decide(login, login.verify())

    def _verified(self, login: Login, verified: Verified) -> None:
        self._verifying = False
        try:
            self._decide(login, verified)
        finally:
            self._next()

    def _decide(self, login: Login, verified: Verified) -> None:
        self._ends(login)
        if isinstance(verified, Exception):
            log.error("password not verified", user=login.name, address=login.address, exc_info=verified)
            login.announce("the password could not be verified")
        elif verified and login.stored == self._stored(login.name):
            self.known.add(login.digest)
            self._guesses.was_right(login.address, login.name, self._clock())
            login.announce("")
        else:
            self._was_wrong(login)

    def _was_wrong(self, login: Login) -> None:
        now = self._clock()
        self._wrong[login.digest] = now + WRONG_SECONDS
        if len(self._wrong) > WRONG_MAX:
            self._wrong.popitem(last=False)
        if seconds := self._guesses.was_wrong(login.address, login.name, now):
            log.warning(
                "passwords are guessed", user=login.name, address=login.address, wrong=login.guesser.wrong,
                refused_for=shown(seconds),
            )  # fmt: skip
        login.announce(self._why_wrong(login.name))

    def _ends(self, login: Login) -> None:
        del self._waiting[login.digest]
        login.guesser.under_way -= 1

    def _stored(self, name: str) -> str:
        """Return the hash of a user's password; `passwords.NONE` for an unknown user."""
        user = self._users.user(name)
        return passwords.NONE if user is None else user.password_hash

    def _why_wrong(self, name: str) -> str:
        return NO_USER if self._users.user(name) is None else "the password is wrong"
