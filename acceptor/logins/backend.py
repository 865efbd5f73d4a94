"""What the backends of logins have in common: how a login is decided, and who a client then is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from acceptor.gates.rights import Rights


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a client is: its `rights`, by which backend, and until when (seconds since 1970; None: as long as it
    likes).
    """

    rights: Rights
    backend: Backend
    expires: float | None = None


Decision: TypeAlias = Identity | str
"""Who the client is, or the reason for a refusal, for the log."""
Decided = Callable[[Decision], None]


class AuthError(Exception):
    """Settings of a backend that cannot be used; the text says why."""


class Backend(Protocol):
    """Decides on logins. `decided` is called once, now or later."""

    def check(self, name: str, password: str, host: str, decided: Decided) -> None:
        """Decide on a user and a password, sent from a host."""
        ...

    def recognize(self, name: str, host: str, decided: Decided) -> None:
        """Decide on a user whose certificate has shown who it is."""
        ...

    def renew(self, identity: Identity, secret: str, decided: Decided) -> None:
        """Decide on a new secret of a client that this backend has accepted (connection.update-secret)."""
        ...
