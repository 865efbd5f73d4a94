"""Methods that mean the pseudo-queue of direct replies, or the name of a reply consumer (`penstock.amqp.replies`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.clients.asking import Handling
from penstock.amqp.errors import amqp_error

if TYPE_CHECKING:
    from acceptor.amqp.channel import Channel


def consume(channel: Channel, tag: str, arguments: dict[str, Any]) -> Handling:
    """Handle basic.consume from the pseudo-queue. Once it is answered, the name is known where it is asked for."""
    if not arguments["no_ack"]:
        raise amqp_error(406, "reply consumer cannot acknowledge")
    if channel.receiving.reply_consumer is not None:
        raise amqp_error(406, "reply consumer already set")
    consumer = channel.services.replies.add(channel, tag)
    yield from channel.services.replies.exists(consumer.name)
    if not arguments["nowait"]:
        channel.send("basic_consume_ok", consumer_tag=tag)


def declare(channel: Channel, name: str, arguments: dict[str, Any]) -> Handling:
    """Handle queue.declare of the pseudo-queue, or of a reply consumer's name: says whether that consumer exists."""
    if not (yield from channel.services.replies.exists(name)):
        raise amqp_error(404, f"no queue '{name}' in vhost '{channel.access.vhost}'")
    channel.last_queue = name
    if not arguments["nowait"]:
        channel.send("queue_declare_ok", queue=name, message_count=0, consumer_count=1)
