"""Reply consumers, which consume from `amq.rabbitmq.reply-to` (see `penstock.amqp.replies`).

Answers are never stored: those for a consumer that is gone are dropped, and so are those for a consumer whose socket
has not accepted a whole window of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.clients.asking import Asking, ask_shard
from acceptor.clients.reply_consumer import ReplyConsumer
from acceptor.routing.carriers import carriers
from penstock.amqp.replies import PSEUDO_QUEUE, carrier, home_of, new_name
from penstock.batch.batch_cy import Batch
from penstock.bus import to_shard
from penstock.bus.link_stage import UP
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.budgets.outputs import Outputs
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.state import AcceptorState

log = get_logger()


class Replies:
    """The channels of an acceptor with a reply consumer, by its name."""

    def __init__(self, acceptor: AcceptorState, outputs: Outputs) -> None:
        self.acceptor = acceptor
        self.outputs = outputs
        self.channels: dict[str, ChannelState] = {}

    def carrier(self, name: str) -> int:
        """Return the shard that passes on answers to a name."""
        return carrier(name, carriers(self.acceptor.topology))

    def announce(self, name: str, there: bool) -> None:
        """Announce a reply consumer, or its end, to every shard that is up: each acceptor asks one that it knows of."""
        for link in self.acceptor.links:
            if link.stage is UP:
                link.send(to_shard.Replies(name, there))

    def add(self, channel: ChannelState, tag: str) -> ReplyConsumer:
        """A channel has a reply consumer from now on."""
        name = new_name(self.acceptor.index, self.acceptor.incarnation)
        self.channels[name] = channel
        consumer = channel.receiving.reply_consumer = ReplyConsumer(tag, name)
        self.announce(name, True)
        return consumer

    def cancel(self, channel: ChannelState) -> None:
        """Remove the reply consumer of a channel, if it has one."""
        consumer, channel.receiving.reply_consumer = channel.receiving.reply_consumer, None
        if consumer is not None:
            del self.channels[consumer.name]
            self.announce(consumer.name, False)

    def announce_all(self, shard: int) -> None:
        """Announce all reply consumers to a shard whose incarnation has begun."""
        for name in self.channels:
            self.acceptor.send(shard, to_shard.Replies(name, True))

    def deliver(self, name: str, batch: Batch, count: int) -> None:
        """Write answers to their consumer; drop them if it is gone or does not read."""
        channel = self.channels.get(name)
        consumer = channel.receiving.reply_consumer if channel is not None else None
        if channel is None or consumer is None:
            return
        connection = channel.connection
        if connection.writable:
            consumer.untaken = 0
        elif consumer.untaken > self.acceptor.settings.flow.consumer_window_bytes or self.outputs.is_over(connection):
            log.warning("answers dropped, their consumer does not read", connection=connection.id, messages=count)
            return
        else:
            consumer.untaken += len(batch.contents)
        connection.delivered += len(batch.contents)
        tag = channel.unacked.skip(count)
        connection.write_contents(channel.number, consumer.prefix, tag, False, b"", batch, 0, count)

    def exists(self, name: str) -> Asking:
        """Return whether a reply consumer exists, on any acceptor; the pseudo-queue always does."""
        if name == PSEUDO_QUEUE:
            return True
        if home_of(name) is None:
            return False
        found: bool = yield from ask_shard(self.carrier(name), to_shard.RepliesTo(name))
        return found
