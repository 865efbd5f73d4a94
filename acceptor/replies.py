"""Reply consumers: those who consume from `amq.rabbitmq.reply-to` (see `penstock.amqp.replies`).

Answers are never kept anywhere: what comes for a consumer that is gone is dropped, and so is what comes for one whose
socket has not taken a whole window of them.
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
    """The reply consumer of a channel. `untaken` counts octets written while its socket took nothing."""

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
        return carrier(name, carriers(self.core.topology))

    def tell(self, name: str, there: bool) -> None:
        """Every shard that is there: each acceptor asks one that it knows of."""
        for link in self.core.links:
            if link.up:
                link.tell(bus.REPLIES, name, there)

    def add(self, channel: Channel, tag: str) -> ReplyConsumer:
        name = new_name(self.core.index, self.core.incarnation)
        consumer = self.consumers[name] = ReplyConsumer(channel, tag, name)
        self.tell(name, True)
        return consumer

    def remove(self, consumer: ReplyConsumer) -> None:
        del self.consumers[consumer.name]
        self.tell(consumer.name, False)

    def tell_again(self, shard: int) -> None:
        """A shard has begun its life, or another one."""
        for name in self.consumers:
            self.core.tell(shard, bus.REPLIES, name, True)

    def deliver(self, name: str, batch: Batch, count: int) -> None:
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
    """The shards that pass answers on: those that are there to stay, for a while at least."""
    return sorted(index for index, state in topology.shards.items() if state in (SERVING, DRAINING))


def consume(channel: Channel, tag: str, arguments: dict[str, Any]) -> Handling:
    """basic.consume from the pseudo-queue. When it is answered, the name is known where it is asked for."""
    if not arguments["no_ack"]:
        raise amqp_error(406, "reply consumer cannot acknowledge")
    if channel.reply_consumer is not None:
        raise amqp_error(406, "reply consumer already set")
    consumer = channel.reply_consumer = channel.core.replies.add(channel, tag)
    yield from exists(channel, consumer.name)
    if not arguments["nowait"]:
        channel.send("basic_consume_ok", consumer_tag=tag)


def cancel(channel: Channel) -> None:
    """The reply consumer of a channel goes, if it has one."""
    if channel.reply_consumer is not None:
        channel.core.replies.remove(channel.reply_consumer)
        channel.reply_consumer = None


def exists(channel: Channel, name: str) -> Asking:
    """Whether there is such a reply consumer, on whichever acceptor; the pseudo-queue is always there."""
    if name == PSEUDO_QUEUE:
        return True
    if home_of(name) is None:
        return False
    found: bool = yield from ask_shard(channel.core.replies.carrier(name), bus.REPLIES_TO, name)
    return found


def declare(channel: Channel, name: str, arguments: dict[str, Any]) -> Handling:
    """queue.declare of the pseudo-queue, or of the name of a reply consumer: tells whether it lives."""
    if not (yield from exists(channel, name)):
        raise amqp_error(404, f"no queue '{name}' in vhost '{channel.vhost}'")
    channel.last_queue = name
    if not arguments["nowait"]:
        channel.send("queue_declare_ok", queue=name, message_count=0, consumer_count=1)
