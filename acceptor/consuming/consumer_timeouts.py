"""Limits on how long a client may keep deliveries unacked (RabbitMQ's consumer timeout) or a transaction open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.limits.features import QueueFeatures

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.state import AcceptorState

# Seconds between checks, or `CHECKS` checks within the node's own limit if that is short.
INTERVAL = 60.0
CHECKS = 4


class ConsumerTimeouts:
    """Checks the channels of an acceptor periodically. Times are seconds, those of queues milliseconds."""

    def __init__(self, acceptor: AcceptorState) -> None:
        self.acceptor = acceptor
        amqp = acceptor.settings.amqp
        self.timeout, self.transaction_timeout = timeouts = amqp.consumer_timeout, amqp.transaction_timeout
        self.interval = min([INTERVAL, *(each / CHECKS for each in timeouts if each)])
        self.next_check = 0.0

    def tick(self, now: float) -> None:
        """Close channels that keep deliveries or a transaction for too long; called often, it checks when due."""
        if now < self.next_check:
            return
        self.next_check = now + self.interval
        for connection in list(self.acceptor.connections.values()):
            for channel in list(connection.channels.values()):
                if channel.unacked.total:
                    self.check_deliveries(channel, now)
                self.check_transaction(channel, now)

    def check_deliveries(self, channel: ChannelState, now: float) -> None:
        """Close a channel that keeps a delivery for longer than its queue, or the node, allows."""
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

    def check_transaction(self, channel: ChannelState, now: float) -> None:
        """Close a channel whose transaction is open for too long."""
        transaction, most = channel.transaction, self.transaction_timeout
        if most and transaction is not None and transaction.since is not None and now - transaction.since > most:
            channel.end_by(f"transaction is open for longer than {most:g} s (amqp.transaction_timeout)")

    def limit(self, queue_id: int) -> float:
        """Return how long deliveries from a queue may be kept, in seconds, 0 for ever."""
        queue = self.acceptor.topology.queue_by_id(queue_id)
        milliseconds = QueueFeatures.from_wire(queue.features).consumer_timeout if queue is not None else None
        return self.timeout if milliseconds is None else milliseconds / 1000
