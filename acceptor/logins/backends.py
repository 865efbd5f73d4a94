"""The backends of a node, in the order of `auth.backends`.

Libraries for tokens and HTTP are imported only where a backend needs them: acceptors are forked, and memory that all
of them would have for nothing is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from acceptor.logins.backend import Backend
from acceptor.logins.background import Background
from acceptor.logins.guesses import Guesses
from acceptor.logins.internal import InternalBackend
from acceptor.logins.logins import Logins
from acceptor.logins.passwords import Passwords
from penstock.settings.auth import BackendName

if TYPE_CHECKING:
    from penstock.settings import Settings
    from router.model.topology import Topology


class Calling(Protocol):
    """A part that calls HTTP services, in a background that the process sets."""

    background: Background


class Expiring(Protocol):
    """A part whose answers expire."""

    def expire(self) -> bool: ...


def import_libraries(name: BackendName) -> None:
    """Import what a backend needs, before acceptors are forked."""
    if name == "oauth2":
        import acceptor.logins.tokens
    elif name == "http":
        import acceptor.logins.http_backend  # noqa: F401


@dataclass(slots=True)
class Authentication:
    """The logins of an acceptor, with their parts: the `passwords` of the node's own users, what is `calling` services,
    and what is `expiring`.
    """

    logins: Logins
    passwords: Passwords
    calling: Sequence[Calling] = ()
    expiring: Sequence[Expiring] = field(default=())

    def expire(self) -> bool:
        """Forget answers that are too old; return whether rights may have changed. Called once a second."""
        return sum(each.expire() for each in self.expiring) > 0


def authentication(
    settings: Settings, topology: Topology, clock: Callable[[], float], wall: Callable[[], float]
) -> Authentication:
    """Make the logins of an acceptor. `clock` gives its seconds, `wall` those since 1970."""
    names, guesses = settings.auth.backends, Guesses()
    passwords = Passwords(topology, guesses, clock)
    backends: list[Backend] = []
    calling: list[Calling] = []
    expiring: list[Expiring] = []
    for name in names:
        if name == "internal":
            backends.append(InternalBackend(topology, passwords, is_alone=len(names) == 1))
        elif name == "oauth2":
            from acceptor.logins.key_sets import Keys
            from acceptor.logins.tokens import TokenBackend

            keys = Keys(settings.auth.oauth2, clock)
            calling.append(keys)
            backends.append(TokenBackend(settings.auth.oauth2, keys, wall))
        else:
            from acceptor.logins.http_answers import HttpAnswers
            from acceptor.logins.http_backend import HttpBackend

            answers = HttpAnswers(settings.auth.http, clock)
            calling.append(answers)
            expiring.append(answers)
            backends.append(HttpBackend(settings.auth.http, answers, guesses, clock))
    logins = Logins(backends, settings.amqp.loopback_users)
    return Authentication(logins, passwords, calling, expiring)
