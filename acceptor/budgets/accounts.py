"""Memory that clients make an acceptor use, and its bounds.

Every byte that a connection makes a process keep is charged to the connection and to its user, from when it is read (or
generated, for an answer) until it is written or discarded:

    kept                                bound of a connection                 beyond it
    publishes without room (parked)     flow.held_bytes                       not read but for a drip (acceptor.quotas)
    methods that wait their turn        the same                              the same
    unfinished bodies                   amqp.unfinished_bytes beyond the      closed with 506 (acceptor.unfinished)
                                        largest of them
    answers that it does not read       amqp.output_bytes                     not read (acceptor.outputs)
    deliveries that it does not read    flow.connection_window_bytes of       gets no more (shard.queue.outlet_cy,
                                        each shard, and a message             for its user shard.queue.lending)
    uncommitted publishes               amqp.transaction_bytes                406 (acceptor.transaction)

Each user has a share of the total, so that other users never wait because of one. `acceptor.budgets.quotas` defines the
share of parked contents. The share of bodies, answers and transactions is `memory.user_percent` of
`memory.process_limit`, divided equally among the acceptors, and is counted here. All users together may have half of
the limit; beyond that each has an equal share.

Invariants: the sum over a user's connections is the user's charge, the sum over users is `kept`, and a closed
connection is charged nothing. Connections are read in turns of the loop, so one may exceed its bound by one read;
nothing is checked message by message.
"""

from __future__ import annotations

from acceptor.budgets.charges import Charges
from penstock.settings import Settings

# The share of all users together, in percent of the limit.
ALL_PERCENT = 50


class Accounts(Charges):
    """Bytes of bodies, unread answers and transactions, by user and in all, and the share of a user."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        memory = settings.memory
        self.of_all = memory.process_limit * ALL_PERCENT // 100 // settings.acceptors
        self.of_user = max(memory.process_limit * memory.user_percent // 100 // settings.acceptors, 1)

    def is_used_up(self, user: str, nbytes: int = 0) -> bool:
        """Whether a user exceeds its share, or would with `nbytes` bytes more; once all users together exceed theirs,
        each has an equal share.
        """
        own, kept = self.users.get(user, 0) + nbytes, self.kept + nbytes
        return own > self.of_user or (kept > self.of_all and own * len(self.users) > self.of_all)
