"""How much of held publishes may be kept, in memory and on disk: for a connection, a user, a vhost, an acceptor.

What an acceptor keeps at most is what it may have parked in memory and on disk; a user and a vhost have a share of it,
a connection so many octets. What outlives its connection stays charged to its user and vhost. Where one of the shares
or the acceptor's is used up, connections that somebody may expect acks from have a little for themselves; others have
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.charges import Charges, charge

if TYPE_CHECKING:
    from acceptor.connection_state import ConnectionState
    from acceptor.state import AcceptorState

# Beyond what may be kept so much of it may come, in parts of the whole: acks that stand behind publishes.
OVERDRAFT = 1.25
# Parking budgets of a connection that may bring acks, though its user's share is used up.
SETTLING_BUDGETS = 16
# What a run of publishes weighs beside what it has parked, wherever that is; and an orphaned channel beside its runs.
RUN_OCTETS = 1024
ORPHAN_OCTETS = 4096


class Quotas(Charges):
    """What is kept, by user, by vhost and in all, in octets."""

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
        self.calm = min(self.in_memory, self.of_user, self.of_vhost)  # as long as no more is kept nothing is used up
        self.vhosts: dict[str, int] = {}

    def keep(self, connection: ConnectionState, octets: int) -> None:
        """So much more is kept for a connection, or less, be it there or gone."""
        self.charge(connection.user, octets)
        charge(self.vhosts, connection.vhost, octets)

    def is_used_up(self, connection: ConnectionState, octets: int = 0, overdraft: float = 1.0) -> bool:
        """Whether, with so many octets more, the share of its user or vhost would be, or the acceptor's."""
        return bool(self.used_up(connection, octets, overdraft))

    def used_up(self, connection: ConnectionState, octets: int = 0, overdraft: float = 1.0) -> str:
        """What would be, in words, or nothing."""
        kept, spool = self.kept + octets, self.acceptor.spool
        if self.users.get(connection.user, 0) + octets > self.of_user * overdraft:
            return f"user '{connection.user}' has its share (flow.user_percent)"
        if self.vhosts.get(connection.vhost, 0) + octets > self.of_vhost * overdraft:
            return f"vhost '{connection.vhost}' has its share (flow.vhost_percent)"
        if kept > self.of_all * overdraft:
            return "all together have what may be (flow.parked_memory, flow.spool_limit)"
        if spool is not None and spool.refuses and kept - spool.held > self.in_memory * overdraft:
            return "all together have what may be in memory, and the disk takes nothing (flow.parked_memory)"
        return ""

    def allowance(self, connection: ConnectionState) -> int:
        """What may be kept for a connection by now, as long as no acks of it are awaited."""
        if self.kept <= self.calm or not self.is_used_up(connection):
            return self.of_connection
        if self.is_used_up(connection, overdraft=OVERDRAFT) or not connection.settles():
            return 0
        return self.of_settling
