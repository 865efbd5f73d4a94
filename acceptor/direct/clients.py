"""The direct connections of an acceptor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.direct.connection import DirectConnection
from acceptor.gates.rights import InternalRights, OperatorRights

if TYPE_CHECKING:
    from acceptor.amqp.services import Services
    from acceptor.gates.rights import Rights

WAITING_MOST = 4
"""Publishes that wait for room at once: each is a request that other users of the HTTP interface may be short of."""


class DirectClients:
    """Makes direct connections. `waiting` counts their publishes that wait for room."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.waiting = 0

    def own(self, user: str) -> Rights:
        """Return the rights of one of the node's own users, or ("") of the operator."""
        return InternalRights(self.services.acceptor.topology.users, user) if user else OperatorRights()

    def connect(self, rights: Rights, host: str, vhost: str) -> DirectConnection:
        """Return a connection of a user at a host."""
        return DirectConnection(self.services, rights, host, vhost)

    def may_wait(self) -> bool:
        """Whether one more publish may wait for room."""
        return self.waiting < WAITING_MOST
