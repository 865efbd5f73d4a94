"""How long a client may keep what it was delivered without acknowledging it (RabbitMQ's consumer timeout), and a
transaction open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.limits.features import QueueFeatures

if TYPE_CHECKING:
    from acceptor.channel_state import ChannelState
    from acceptor.state import AcceptorState

# It is looked at this often, in seconds, or as many times within the node's own limit if that is short.
INTERVAL = 60.0
LOOKS = 4


class Patience:
    """Looks at the channels of an acceptor from time to time. Times are seconds, those of queues milliseconds."""

    def __init__(self, acceptor: AcceptorState) -> None:
        self.acceptor = acceptor
        amqp = acceptor.settings.amqp
        self.timeout, self.transaction_timeout = timeouts = amqp.consumer_timeout, amqp.transaction_timeout
        self.interval = min([INTERVAL, *(each / LOOKS for each in timeouts if each)])
        self.next_look = 0.0

    def tick(self, now: float) -> None:
        """Often. Channels that keep deliveries for too long are closed."""
        if now < self.next_look:
            return
        self.next_look = now + self.interval
        for connection in list(self.acceptor.connections.values()):
            for channel in list(connection.channels.values()):
                if channel.unacked.total:
                    self.look_at(channel, now)
                self.look_at_transaction(channel, now)

    def look_at(self, channel: ChannelState, now: float) -> None:
        limits = {consumer.id: self.limit(consumer.queue.queue_id) for consumer in channel.consumers.values()}
        limits |= {getter: self.limit(queue) for queue, getter in channel.getters.items()}
        least = min((limit for limit in (*limits.values(), self.timeout) if limit), default=0.0)
        if not least:
            return
        for consumer, since in channel.unacked.older_than(int(now - least)):
            limit = limits.get(consumer, self.timeout)
            if limit and since < now - limit:
                channel.time_out(round(limit * 1000))
                return

    def look_at_transaction(self, channel: ChannelState, now: float) -> None:
        transaction, most = channel.transaction, self.transaction_timeout
        if most and transaction is not None and transaction.since is not None and now - transaction.since > most:
            channel.end_by(f"transaction is open for longer than {most:g} s (amqp.transaction_timeout)")

    def limit(self, queue_id: int) -> float:
        """How long deliveries from a queue may be kept, 0 for ever."""
        queue = self.acceptor.topology.queue_by_id(queue_id)
        milliseconds = QueueFeatures.from_wire(queue.features).consumer_timeout if queue is not None else None
        return self.timeout if milliseconds is None else milliseconds / 1000
