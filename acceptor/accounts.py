"""What clients make an acceptor keep, and how much of it they may.

Every octet that a connection makes a process keep is charged to it, and to its user, from when it is read (or made, if
it is an answer) until it is written or let go:

    kept                                bound of a connection                 beyond it
    published, and no room (parked)     flow.held_bytes                       not read but for a drip (acceptor.quotas)
    methods that wait their turn        the same                              the same
    bodies that it has begun            amqp.unfinished_bytes beyond the      closed with 506 (acceptor.unfinished)
                                        largest of them
    answers that it does not take       amqp.output_bytes                     not read (acceptor.outputs)
    deliveries that it does not take    flow.connection_window_bytes of       it gets no more (shard.queue.outlet_cy,
                                        each shard, and a message             for its user shard.queue.lending)
    publishes without commit            amqp.transaction_bytes                406 (acceptor.transaction)

A user has a share of what all may have, so that others never wait for what one does: of what is parked that is for
`acceptor.quotas` to say; of bodies, answers and transactions it is `memory.user_percent` of `memory.process_limit`,
in equal parts for the acceptors, and this is where it is counted. All users together may have half of the limit: beyond
that each has an equal share.

What holds at all times: the sum over the connections of a user is what that user is charged, the sum over users is
`kept`, and a connection that is gone is charged nothing. Reading goes by turns of the loop, so a connection may be
beyond its bound by one read; nothing is looked at message by message.
"""

from __future__ import annotations

from acceptor.charges import Charges
from penstock.settings import Settings

# What all users together may have, in percent of the limit.
ALL_PERCENT = 50


class Accounts(Charges):
    """Octets of bodies, of answers that nobody takes and of transactions, by user, in all, and the share of a user."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        memory = settings.memory
        self.of_all = memory.process_limit * ALL_PERCENT // 100 // settings.acceptors
        self.of_user = max(memory.process_limit * memory.user_percent // 100 // settings.acceptors, 1)

    def is_used_up(self, user: str, octets: int = 0) -> bool:
        """Whether a user has more than its share, or would with so many octets more: where all have more than they may,
        an equal one.
        """
        own, kept = self.users.get(user, 0) + octets, self.kept + octets
        return own > self.of_user or (kept > self.of_all and own * len(self.users) > self.of_all)
