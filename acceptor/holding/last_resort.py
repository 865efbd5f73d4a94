"""The last resort for a held connection that has used up its allowance of parked publishes (`acceptor.budgets.quotas`).

      held within its allowance ──▶ spent: its consumers get nothing more; it is read on for acks of unacked messages
      spent ──(it has no unacked messages, or brings no acks)──▶ the last resort, if it cannot just wait
      spent ──(a part of its parked publishes was sent)──▶ held within its allowance

Most clients just wait until their socket is read again. A client that consumes cannot: it gets nothing meanwhile, and
its unacked messages can be settled by no other, as its acks are behind data that is not read. Such a client meets the
last resort, and so does an impatient one, which would give up its connection, once it has sent more than the kernel
takes. The connection is closed, or (`pause`) not read, or (`nack`) its publishes with confirms, parked and further
ones, are nacked until there is room. The parked publishes of a closed connection are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from acceptor.budgets.quotas import ORPHAN_BYTES, OVERDRAFT, Quotas
from acceptor.clients.asking import Answer, has_failed
from acceptor.clients.parked import ParkedRun
from acceptor.gates.deadline_queue import DeadlineQueue
from acceptor.gates.pools import itself
from acceptor.gates.queue_gate import QueueGate
from penstock.amqp.errors import amqp_error
from penstock.bus import to_shard
from penstock.limits.ladder import CLOSE_CONNECTION, PAUSE
from penstock.node.logs import get_logger
from router.model.policies import policy_for
from router.model.policy_keys import LAST_RESORT, LAST_RESORTS, USER

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.state import AcceptorState
    from acceptor.gates.gate import Gate
    from acceptor.holding.books import Books
    from acceptor.holding.escalation import Escalations

log = get_logger()

# How long a spent client that is not impatient goes without deliveries before the last resort.
SECONDS = 10.0
# How many of its drips an impatient client misses before the last resort.
DRIPS = 2
# How many closed connections are read at each poll, and how many bytes of each: their data is discarded, and must not
# keep others waiting.
READ_AT_ONCE = 16
READ_BYTES = 64 * 1024


class LastResort:
    """The spent connections of an acceptor.

    `due` has when each may meet the last resort. `resorted` ones have met it; `closing` ones were closed by it, and
    their sockets are still open.
    """

    def __init__(self, acceptor: AcceptorState, quotas: Quotas, books: Books, escalations: Escalations) -> None:
        self.acceptor = acceptor
        self.quotas = quotas
        self.books = books
        self.escalations = escalations
        self.stop_drip: Callable[[ConnectionState], None] = lambda connection: None
        self.spent: dict[ConnectionState, None] = {}
        self.due: DeadlineQueue[ConnectionState] = DeadlineQueue()
        self.resorted: set[ConnectionState] = set()
        self.closing: dict[ConnectionState, None] = {}

    # Spent connections

    def is_spent(self, connection: ConnectionState) -> bool:
        """Whether no more may be kept for a connection. It may begin or cease to be spent here."""
        if connection in self.spent:
            self.recheck(connection)
            return connection in self.spent
        if connection.kept.held and connection.kept.held >= self.quotas.allowance(connection):
            self.begin(connection)
            return True
        return False

    def may_read(self, connection: ConnectionState) -> bool:
        """Whether a paused connection may be read: it has allowance left, or acks are awaited from it."""
        if not self.is_spent(connection):
            return True
        allowance = self.quotas.allowance(connection)
        return connection.kept.held < allowance * OVERDRAFT and connection.has_in_hand()

    def begin(self, connection: ConnectionState) -> None:
        """Enter a connection as spent, and stop deliveries to it."""
        self.spent[connection] = None
        self.due.put(connection, self.acceptor.now + self.patience(connection))
        self.withhold(connection, True)

    def end(self, connection: ConnectionState) -> None:
        """Resume deliveries to a connection that is spent no longer, or is gone."""
        if connection not in self.spent:
            return
        del self.spent[connection]
        self.due.discard(connection)
        self.resorted.discard(connection)
        self.withhold(connection, False)

    def forget(self, connection: ConnectionState) -> None:
        """Forget a connection that is gone."""
        self.spent.pop(connection, None)
        self.due.discard(connection)
        self.resorted.discard(connection)
        self.closing.pop(connection, None)

    def recheck(self, connection: ConnectionState) -> None:
        """Recheck a spent connection: its publishes, or those of its user or vhost, may have been sent."""
        if connection.kept.held * 2 <= self.quotas.allowance(connection):
            self.end(connection)

    def withhold(self, connection: ConnectionState, withheld: bool) -> None:
        """Stop or resume deliveries to the consumers of a connection."""

        def answered(answer: Answer) -> None:
            has_failed(connection, answer.error)

        connection.deliveries_withheld = withheld
        for channel in connection.channels.values():
            if channel.receiving.active:
                for shard, ids in channel.consumers_by_shard().items():
                    self.acceptor.ask_at(shard, to_shard.Active(ids, not withheld), answered)

    def patience(self, connection: ConnectionState) -> float:
        """Return how long a connection may be spent before the last resort, in seconds."""
        return DRIPS * connection.drip_seconds() if connection.client.traits.impatient else SECONDS

    def bound(self, connection: ConnectionState) -> str:
        """Describe the bound that a spent connection has reached."""
        return self.quotas.used_up(connection) or "the connection has what may be (flow.held_bytes)"

    # The last resort

    def advance(self, now: float) -> None:
        """Have connections that were spent for too long meet the last resort, and read closed ones; called often."""
        for connection in self.due.pop_due(now):
            if connection in self.spent:
                self.due.put(connection, now + self.patience(connection))
                if not self.may_read(connection) and connection not in self.resorted and self.cannot_wait(connection):
                    self.resort(connection)
        for connection in list(islice(self.closing, READ_AT_ONCE)):
            del self.closing[connection]
            self.closing[connection] = None
            connection.drip(READ_BYTES)

    def cannot_wait(self, connection: ConnectionState) -> bool:
        """Whether waiting would lose a connection, or keep messages that it consumes or has unacked from others."""
        return connection.settles() or (connection.client.traits.impatient and connection.transport.is_filled())

    def resort(self, connection: ConnectionState) -> None:
        """Carry out the last resort on a connection with a held channel; one that only waits its turn needs none."""
        held = (one for one in connection.channels.values() if one.held_by is not None)
        channel = next((one for one in held if one.cause() is not None), None)
        gate = channel.cause() if channel is not None else None
        if channel is None or gate is None:
            return
        self.resorted.add(connection)
        way = self.way(connection)
        self.log(channel, gate, way)
        if way == "nack":
            self.nack(connection)
        elif way == "pause":
            self.count(channel, gate, PAUSE)
        else:
            self.count(channel, gate, CLOSE_CONNECTION)
            self.close(connection, gate)

    def way(self, connection: ConnectionState) -> str:
        """Return the last resort of a connection: by a policy for its user, else by its own wish, else the node's.

        It is "close" instead of "nack" where not all of its parked messages can be nacked.
        """
        wish = connection.client.properties.get(LAST_RESORT)
        policy = policy_for(self.acceptor.topology, connection.access.vhost, USER, connection.user)
        if policy is not None:
            wish = policy.definition.get(LAST_RESORT, wish)
        way = wish if wish in LAST_RESORTS else self.acceptor.settings.flow.last_resort
        if way == "nack" and not all(map(may_be_nacked, connection.channels.values())):
            return "close"
        return str(way)

    def nack(self, connection: ConnectionState) -> None:
        """Have the held channels of a connection refused by the queues that hold them, until there is room."""
        for channel in list(connection.channels.values()):
            gate = channel.cause()
            full = itself(gate) if gate is not None else None
            if channel.inbox and channel.held_by is not None and isinstance(full, QueueGate):
                self.escalations.refuse(channel, full)

    def close(self, connection: ConnectionState, gate: Gate) -> None:
        """Close a connection with 506, keep its parked publishes, and read on until its client closes the socket."""
        text = f"{gate}; {connection.kept.parked} bytes are parked for this connection, and no more can be"
        if used_up := self.quotas.used_up(connection, ORPHAN_BYTES, OVERDRAFT):
            text += f": nor may they all be kept, {used_up}"
        self.closing[connection] = None
        self.stop_drip(connection)
        connection.fail(amqp_error(506, text), keep_parked=True)

    def count(self, channel: ChannelState, gate: Gate, rung: str) -> None:
        """Count the last resort as the rung of a ladder that has the same effect."""
        self.escalations.counts[rung] += 1
        self.books.escalated(channel, itself(gate), rung)

    def log(self, channel: ChannelState, gate: Gate, way: str) -> None:
        """Log the last resort of a connection."""
        connection = channel.connection
        messages = sum(
            item.count for one in connection.channels.values() for item in one.inbox if isinstance(item, ParkedRun)
        )
        log.info(
            "last resort", way=way, reason=str(gate), messages=messages,
            bytes=connection.kept.parked, bound=self.bound(connection), **channel.whose(),
        )  # fmt: skip


def may_be_nacked(channel: ChannelState) -> bool:
    """Whether all parked publishes of a channel can be nacked; true if there are none."""
    gate = channel.cause()
    if gate is None or not channel.inbox:
        return True
    return channel.confirms is not None and isinstance(itself(gate), QueueGate) and not channel.runs_at_gates()
