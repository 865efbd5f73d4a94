"""How much of held publishes may be kept, in memory and on disk together: for a connection, a user, an acceptor.

What an acceptor keeps at most is what it may have parked in memory and on disk; a user has a share of it, a connection
so many octets. What outlives its connection stays charged to its user. Where a user's share or the acceptor's is used
up, connections that somebody may expect acks from have a little for themselves; others have nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.charges import Charges

if TYPE_CHECKING:
    from acceptor.connection import Connection
    from acceptor.core import AcceptorCore

# Beyond what may be kept so much of it may come, in parts of the whole: acks that stand behind publishes.
OVERDRAFT = 1.25
# Parking budgets of a connection that may bring acks, though its user's share is used up.
SETTLING_BUDGETS = 16
# What a run of publishes weighs beside what it has parked, wherever that is; and an orphaned channel beside its runs.
RUN_OCTETS = 1024
ORPHAN_OCTETS = 4096


class Quotas(Charges):
    """What is kept, by user and in all, in octets."""

    def __init__(self, core: AcceptorCore) -> None:
        super().__init__()
        self.core = core
        flow = core.settings.flow
        self.of_connection = flow.held_bytes
        self.of_settling = min(SETTLING_BUDGETS * flow.parking_bytes, flow.held_bytes)
        self.in_memory = flow.parked_memory
        self.of_all = flow.parked_memory + flow.spool_limit
        self.of_user = self.of_all * flow.user_percent // 100

    def is_used_up(self, user: str, octets: int = 0, overdraft: float = 1.0) -> bool:
        """Whether, with so many octets more, a user's share would be, or the acceptor's."""
        kept, spool = self.kept + octets, self.core.spool
        return (
            kept > self.of_all * overdraft
            or self.users.get(user, 0) + octets > self.of_user * overdraft
            or (spool is not None and spool.refuses and kept - spool.held > self.in_memory * overdraft)
        )

    def allowance(self, connection: Connection) -> int:
        """What may be kept for a connection by now, as long as no acks of it are awaited."""
        if self.kept <= self.in_memory and self.users.get(connection.user, 0) <= self.of_user:
            return self.of_connection  # as `is_used_up` would say; asked at each read that parks
        if not self.is_used_up(connection.user):
            return self.of_connection
        if self.is_used_up(connection.user, overdraft=OVERDRAFT) or not connection.settles():
            return 0
        return self.of_settling
