"""Reply consumers, which consume from `amq.rabbitmq.reply-to` (see `penstock.amqp.replies`).

Answers are never stored: those for a consumer that is gone are dropped, and so are those for a consumer whose socket
has not accepted a whole window of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.asking import Asking, Handling, ask_shard
from penstock import bus
from penstock.amqp.encode_cy import DELIVER
from penstock.amqp.errors import amqp_error
from penstock.amqp.replies import PSEUDO_QUEUE, carrier, home_of, new_name
from penstock.batch.batch_cy import Batch
from penstock.node.logs import get_logger
from router.model.records import DRAINING, SERVING
from router.model.topology import Topology

if TYPE_CHECKING:
    from acceptor.channel import Channel
    from acceptor.core import AcceptorCore

log = get_logger()


class ReplyConsumer:
    """The reply consumer of a channel. `untaken` counts bytes written while its socket accepted nothing."""

    __slots__ = ("channel", "name", "prefix", "tag", "untaken")

    def __init__(self, channel: Channel, tag: str, name: str) -> None:
        octets = tag.encode("utf-8", "surrogateescape")
        self.channel = channel
        self.tag = tag
        self.name = name
        self.prefix = DELIVER + bytes([len(octets)]) + octets
        self.untaken = 0


class Replies:
    """The reply consumers of one acceptor, by name."""

    def __init__(self, core: AcceptorCore) -> None:
        self.core = core
        self.consumers: dict[str, ReplyConsumer] = {}

    def carrier(self, name: str) -> int:
        """Return the shard that passes on answers to a name."""
        return carrier(name, carriers(self.core.topology))

    def tell(self, name: str, there: bool) -> None:
        """Announce a reply consumer, or its end, to every shard that is up: each acceptor asks one that it knows of."""
        for link in self.core.links:
            if link.up:
                link.tell(bus.REPLIES, name, there)

    def add(self, channel: Channel, tag: str) -> ReplyConsumer:
        """Make the reply consumer of a channel and announce it."""
        name = new_name(self.core.index, self.core.incarnation)
        consumer = self.consumers[name] = ReplyConsumer(channel, tag, name)
        self.tell(name, True)
        return consumer

    def remove(self, consumer: ReplyConsumer) -> None:
        """Remove a reply consumer and announce its end."""
        del self.consumers[consumer.name]
        self.tell(consumer.name, False)

    def tell_again(self, shard: int) -> None:
        """Announce all reply consumers to a shard whose incarnation has begun."""
        for name in self.consumers:
            self.core.tell(shard, bus.REPLIES, name, True)

    def deliver(self, name: str, batch: Batch, count: int) -> None:
        """Write answers to their consumer; drop them if it is gone or does not read."""
        consumer = self.consumers.get(name)
        if consumer is None:
            return
        channel = consumer.channel
        connection = channel.connection
        if connection.writable:
            consumer.untaken = 0
        elif consumer.untaken > self.core.settings.flow.consumer_window_bytes or self.core.outputs.is_over(connection):
            log.warning("answers dropped, their consumer does not read", connection=connection.id, messages=count)
            return
        else:
            consumer.untaken += len(batch.contents)
        connection.delivered += len(batch.contents)
        tag = channel.unacked.skip(count)
        connection.write_contents(channel.number, consumer.prefix, tag, False, b"", batch, 0, count)


def carriers(topology: Topology) -> list[int]:
    """Return the shards that pass answers on: those that stay, for a while at least."""
    return sorted(index for index, state in topology.shards.items() if state in (SERVING, DRAINING))


def consume(channel: Channel, tag: str, arguments: dict[str, Any]) -> Handling:
    """Handle basic.consume from the pseudo-queue. Once it is answered, the name is known where it is asked for."""
    if not arguments["no_ack"]:
        raise amqp_error(406, "reply consumer cannot acknowledge")
    if channel.reply_consumer is not None:
        raise amqp_error(406, "reply consumer already set")
    consumer = channel.reply_consumer = channel.core.replies.add(channel, tag)
    yield from exists(channel, consumer.name)
    if not arguments["nowait"]:
        channel.send("basic_consume_ok", consumer_tag=tag)


def cancel(channel: Channel) -> None:
    """Remove the reply consumer of a channel, if it has one."""
    if channel.reply_consumer is not None:
        channel.core.replies.remove(channel.reply_consumer)
        channel.reply_consumer = None


def exists(channel: Channel, name: str) -> Asking:
    """Return whether a reply consumer exists, on any acceptor; the pseudo-queue always does."""
    if name == PSEUDO_QUEUE:
        return True
    if home_of(name) is None:
        return False
    found: bool = yield from ask_shard(channel.core.replies.carrier(name), bus.REPLIES_TO, name)
    return found


def declare(channel: Channel, name: str, arguments: dict[str, Any]) -> Handling:
    """Handle queue.declare of the pseudo-queue, or of a reply consumer's name: says whether that consumer exists."""
    if not (yield from exists(channel, name)):
        raise amqp_error(404, f"no queue '{name}' in vhost '{channel.vhost}'")
    channel.last_queue = name
    if not arguments["nowait"]:
        channel.send("queue_declare_ok", queue=name, message_count=0, consumer_count=1)
