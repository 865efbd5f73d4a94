"""The backend of the node's own users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.gates.rights import InternalRights
from acceptor.logins.backend import Decided, Identity
from acceptor.logins.passwords import NO_USER, Passwords

if TYPE_CHECKING:
    from router.model.topology import Topology


class InternalBackend:
    """Knows the users of the topology. `is_alone`: no other backend is asked. Else names that it does not know cost no
    verification, nor count as guesses: they may be another one's.
    """

    def __init__(self, topology: Topology, passwords: Passwords, *, is_alone: bool) -> None:
        self._users = topology.users
        self._passwords = passwords
        self._is_alone = is_alone

    def check(self, name: str, password: str, host: str, decided: Decided) -> None:
        if self._is_alone or self._users.user(name) is not None:
            identity = self._identity(name)
            self._passwords.check(name, password, host, lambda reason: decided(reason or identity))
        else:
            decided(NO_USER)

    def recognize(self, name: str, host: str, decided: Decided) -> None:
        decided(NO_USER if self._users.user(name) is None else self._identity(name))

    def renew(self, identity: Identity, secret: str, decided: Decided) -> None:
        """Accept any secret, as RabbitMQ does: passwords do not expire."""
        decided(identity)

    def _identity(self, name: str) -> Identity:
        return Identity(InternalRights(self._users, name), self)
