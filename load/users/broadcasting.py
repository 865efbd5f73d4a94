"""Publish and subscribe: a fanout exchange, and subscribers with a queue each, all of which get every message."""

from __future__ import annotations

from pika import exceptions

from load.session import Session
from load.users.consuming import Consumer
from load.users.publishing import BlockedAwarePublisher, IgnoringPublisher, ObeyingPublisher, Publisher

ACCESS_REFUSED = 403


class Broadcaster(Publisher):
    """Publishes to all subscribers."""

    abstract = True
    role = "broadcasters"
    destination = "subscribers"


class ObeyingBroadcaster(ObeyingPublisher, Broadcaster):
    """To all subscribers, stops on Channel.Flow."""


class IgnoringBroadcaster(IgnoringPublisher, Broadcaster):
    """To all subscribers, ignoring every stop."""


class BlockedAwareBroadcaster(BlockedAwarePublisher, Broadcaster):
    """To all subscribers, stops on Connection.Blocked."""


class Subscriber(Consumer):
    """Consumes the first queue that no other subscriber has. Consuming exclusively is how subscribers share out the
    queues across processes and machines.
    """

    destination = "subscribers"

    @property
    def rate(self) -> float:
        return self.options.slow_rate if self.copy < self.options.slow_subscribers else self.options.consumer_rate

    def open_session(self) -> Session:
        for copy in range(len(self.topology.queues)):
            self.copy = copy
            try:
                return super().open_session()
            except exceptions.ChannelClosedByBroker as error:
                if error.reply_code != ACCESS_REFUSED:
                    raise
        raise ConnectionError("every queue has its subscriber")

    def subscribe(self, session: Session) -> None:
        try:
            queue, prefetch = self.topology.queues[self.copy], self.prefetch(self.options)
            session.consume(queue, prefetch, self.on_delivery, exclusive=True)
        except exceptions.ChannelClosedByBroker:
            session.close()
            raise
