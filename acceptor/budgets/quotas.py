"""Limits of held publishes, in memory and on disk: of a connection, a user, a vhost, an acceptor.

An acceptor may keep what may be parked in memory and on disk; a user and a vhost have a share of that, a connection has
a number of bytes. Contents that outlive their connection stay charged to its user and vhost. Once one of the shares, or
the acceptor's, is used up, connections that may still send acks have a small allowance; others have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.budgets.charges import Charges, charge

if TYPE_CHECKING:
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.state import AcceptorState

# Factor by which limits may be exceeded while acks are awaited that stand behind publishes.
OVERDRAFT = 1.25
# Parking budgets of a connection that may send acks, although its user's share is used up.
SETTLING_BUDGETS = 16
# Memory of a run of publishes beside its parked contents, wherever these are; of an orphaned channel beside its runs.
RUN_BYTES = 1024
ORPHAN_BYTES = 4096


class Quotas(Charges):
    """Bytes of held publishes, by user, by vhost and in all."""

    def __init__(self, acceptor: AcceptorState) -> None:
        super().__init__()
        self.acceptor = acceptor
        flow = acceptor.settings.flow
        self.of_connection = flow.held_bytes
        self.of_settling = min(SETTLING_BUDGETS * flow.parking_bytes, flow.held_bytes)
        self.in_memory = flow.parked_memory
        self.of_all = flow.parked_memory + flow.spool_limit
        self.of_user = self.of_all * flow.user_percent // 100
        self.of_vhost = self.of_all * flow.vhost_percent // 100
        self.calm = min(self.in_memory, self.of_user, self.of_vhost)  # up to this total no limit can be used up
        self.vhosts: dict[str, int] = {}

    def keep(self, connection: ConnectionState, nbytes: int) -> None:
        """Charge bytes (fewer if negative) to a connection's user and vhost; the connection may be gone."""
        self.charge(connection.user, nbytes)
        charge(self.vhosts, connection.access.vhost, nbytes)

    def is_used_up(self, connection: ConnectionState, nbytes: int = 0, overdraft: float = 1.0) -> bool:
        """Whether the share of its user or vhost, or the acceptor's, is used up, or would be with more bytes."""
        return bool(self.used_up(connection, nbytes, overdraft))

    def used_up(self, connection: ConnectionState, nbytes: int = 0, overdraft: float = 1.0) -> str:
        """Return the limit that is used up, or would be with more bytes, in words; an empty text if none is."""
        kept, spool = self.kept + nbytes, self.acceptor.spool
        if self.users.get(connection.user, 0) + nbytes > self.of_user * overdraft:
            return f"user '{connection.user}' has its share (flow.user_percent)"
        if self.vhosts.get(connection.access.vhost, 0) + nbytes > self.of_vhost * overdraft:
            return f"vhost '{connection.access.vhost}' has its share (flow.vhost_percent)"
        if kept > self.of_all * overdraft:
            return "all users together have reached the limit (flow.parked_memory, flow.spool_limit)"
        if spool is not None and spool.refuses and kept - spool.held > self.in_memory * overdraft:
            return "all users together have reached the memory limit, and the disk refuses more (flow.parked_memory)"
        return ""

    def allowance(self, connection: ConnectionState) -> int:
        """Return how many bytes may be kept for a connection at present, as long as no acks of it are awaited."""
        if self.kept <= self.calm or not self.is_used_up(connection):
            return self.of_connection
        if self.is_used_up(connection, overdraft=OVERDRAFT) or not connection.settles():
            return 0
        return self.of_settling
