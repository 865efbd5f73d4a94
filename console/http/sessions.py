"""Sessions of the console: a user who has logged in, known by a random token in a cookie.

    open ──(IDLE_SECONDS without a request, LONGEST_SECONDS in all, logout, another password, the user is gone)──▶ gone

Only a hash of the token is kept. Sessions live in this process: when it restarts, users log in again.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from console.broker import Login
from router.model.users import Users

IDLE_SECONDS = 30 * 60.0
LONGEST_SECONDS = 8 * 3600.0
MOST = 1000
TOKEN_BYTES = 32


@dataclass(slots=True)
class Session:
    """One session; `password_hash` is that of the user at the login, None for one that is not the node's own."""

    login: Login
    password_hash: str | None
    begun: float
    used: float


class Sessions:
    """The open sessions. `clock` gives seconds."""

    def __init__(self, users: Users, clock: Callable[[], float]) -> None:
        self._users = users
        self._clock = clock
        self._open: OrderedDict[bytes, Session] = OrderedDict()

    def begin(self, login: Login) -> str:
        """Begin a session; return its token. Beyond `MOST` the one least recently used ends."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        now = self._clock()
        self._open[_digest(token)] = Session(login, self._password_of(login), now, now)
        if len(self._open) > MOST:
            self._open.popitem(last=False)
        return token

    def find(self, token: str) -> Login | None:
        """Return the user of a session, with its present tags; None if there is no such session any more."""
        digest, now = _digest(token), self._clock()
        session = self._open.get(digest)
        if session is None:
            return None
        login = session.login
        is_over = now - session.used > IDLE_SECONDS or now - session.begun > LONGEST_SECONDS
        is_gone = login.internal and self._users.user(login.user) is None
        if is_over or is_gone or session.password_hash != self._password_of(login):
            del self._open[digest]
            return None
        session.used = now
        self._open.move_to_end(digest)
        user = self._users.user(login.user) if login.internal else None
        return login if user is None else Login(login.user, tuple(user.tags), internal=True)

    def end(self, token: str) -> None:
        """End a session, if it is open."""
        self._open.pop(_digest(token), None)

    def _password_of(self, login: Login) -> str | None:
        user = self._users.user(login.user) if login.internal else None
        return None if user is None else user.password_hash


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
