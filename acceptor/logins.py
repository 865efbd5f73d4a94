"""Who may log in. Slow hashes are verified in the background, one at a time, and remembered for a while.

A storm of reconnects costs one verification for each user and password; what is remembered is a keyed hash, so nothing
of a password can be read from memory. Guessing is slowed by the connection, which refuses only after a while.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from penstock import passwords

if TYPE_CHECKING:
    from router.topology import Topology

REMEMBERED_SECONDS = 300.0
"""How long a password that was right needs no verification; a changed one counts at once, the hash is in the key."""
WRONG_SECONDS = 30.0
REMEMBERED_MAX = 10_000
WAITING_MAX = 256
"""Verifications under way; more would time out before their turn comes."""

Decided = Callable[[str], None]
"""Gets why the login is refused, for the log; empty if it is not."""
Background = Callable[[Callable[[], bool], Callable[[bool], None]], None]
"""Runs the first elsewhere, then the second, here, with what it gave."""


def at_once(work: Callable[[], bool], done: Callable[[bool], None]) -> None:
    done(work())


class Logins:
    """The logins of one acceptor. `background` is for the shell to set; times are seconds of its clock."""

    def __init__(self, topology: Topology, loopback_users: Collection[str]) -> None:
        self.background: Background = at_once
        self._users = topology.users
        self._loopback_users = loopback_users
        self._key = os.urandom(32)
        self._remembered: dict[bytes, tuple[bool, float]] = {}
        self._waiting: dict[bytes, list[Decided]] = {}

    def check(self, name: str, password: str, host: str, now: float, decided: Decided) -> None:
        """Decide on a login from that host, now or later."""
        user = self._users.user(name)
        if user is None:
            decided("there is no such user")
            return
        if name in self._loopback_users and not is_loopback(host):
            decided("this user may log in from this machine only")
            return
        verify = partial(passwords.verify, user.password_hash, password)
        if not passwords.is_slow(user.password_hash):
            decided(_reason(verify()))
            return
        digest = self._digest(name, user.password_hash, password)
        remembered = self._remembered.get(digest)
        if remembered is not None and remembered[1] > now:
            decided(_reason(remembered[0]))
        elif digest in self._waiting:
            self._waiting[digest].append(decided)
        elif len(self._waiting) >= WAITING_MAX:
            decided("too many logins at once")
        else:
            self._waiting[digest] = [decided]
            self.background(verify, partial(self._verified, digest, now))

    def _verified(self, digest: bytes, now: float, right: bool) -> None:
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[digest] = right, now + (REMEMBERED_SECONDS if right else WRONG_SECONDS)
        for decided in self._waiting.pop(digest):
            decided(_reason(right))

    def _digest(self, *parts: str) -> bytes:
        digest = blake2b(key=self._key, digest_size=32)
        for part in parts:
            octets = part.encode("utf-8", "surrogateescape")
            digest.update(len(octets).to_bytes(4, "big") + octets)
        return digest.digest()


def is_loopback(host: str) -> bool:
    return host == "::1" or host.startswith(("127.", "::ffff:127."))


def _reason(right: bool) -> str:
    return "" if right else "the password is wrong"
