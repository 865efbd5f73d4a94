"""Class queue (AMQP 0-9-1, 1.7). The router decides which queues exist, shards know their contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.amqp.methods.replies import declare as declare_reply_queue
from acceptor.clients.asking import Asking, Handling, ask_router, ask_shard
from acceptor.clients.redeclaring import binding_is_equal, equal_queue, numbers
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.amqp.replies import PSEUDO_QUEUE
from penstock.bus import to_shard
from router.model.delaying import check_no_delay_queue
from router.model.records import Binding, described
from router.model.topology import Queue

if TYPE_CHECKING:
    from acceptor.amqp.channel import Channel


SERVER_NAMED = "amq.gen-" + "A" * 22
"""Only the router knows the name that it will make up: a name of the same kind stands for it, always the same, as a
service may be asked about it more than once.
"""


def named(channel: Channel, name: str) -> str:
    """Return the name of the queue that a method means: an empty one is the last declared on the channel (1.7.2.1)."""
    name = name.replace("\r", "").replace("\n", "")
    if name:
        return name
    if not channel.last_queue:
        raise amqp_error(404, "no previously declared queue")
    return channel.last_queue


def find(channel: Channel, name: str) -> Queue:
    """Return the queue of that name. AMQPError if there is none, or if another connection owns it."""
    queue = channel.acceptor.topology.queue(channel.access.vhost, name)
    if queue is None:
        raise amqp_error(404, f"no queue '{name}' in vhost '{channel.access.vhost}'")
    if queue.owner is not None and queue.owner != channel.connection.id:
        raise amqp_error(
            405,
            f"cannot obtain exclusive access to locked queue '{name}' in vhost '{channel.access.vhost}'. It could be "
            "originally declared on another connection or the exclusive property value does not match that of the "
            "original declaration.",
        )
    return queue


def find_to_take(channel: Channel, name: str) -> Queue:
    """Return the queue of that name, whose messages the channel wants. AMQPError as in `find`, or if only its exchange
    may take or delete them.
    """
    queue = find(channel, name)
    check_no_delay_queue(queue)
    return queue


def declare(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Have the router declare a queue (passive: find it), and answer with its numbers of messages and consumers."""
    if arguments["queue"].startswith(PSEUDO_QUEUE):
        yield from declare_reply_queue(channel, named(channel, arguments["queue"]), arguments)
        return
    known: Queue | None
    if arguments["passive"]:
        name = arguments["queue"].replace("\r", "").replace("\n", "")
        channel.access.check_any("queue", name)
        known = find(channel, name)
    else:
        check_declare(channel, arguments["queue"], arguments["arguments"])
        channel.acceptor.counters.queues_declared += 1
        channel.connection.owns_queues |= arguments["exclusive"]  # not only at the answer, which may come too late
        known = equal_queue(channel, arguments)
    counted = None
    if known is not None:
        name, id, shard = known.name, known.queue_id, known.shard
        counted = numbers(channel, known)
    else:
        found = yield from ask_router(
            "queue_declare",
            vhost=channel.access.vhost,
            name=arguments["queue"],
            passive=False,
            durable=arguments["durable"],
            exclusive=arguments["exclusive"],
            auto_delete=arguments["auto_delete"],
            arguments=arguments["arguments"],
            connection=channel.connection.id,
            user=channel.access.declarer,
        )
        name, id, shard = found["name"], found["queue_id"], found["shard"]
    channel.last_queue = name
    if not arguments["nowait"]:
        if counted is None:
            counted = yield from count(channel, name, id, shard, arguments["passive"])
        messages, consumers = counted
        channel.send("queue_declare_ok", queue=name, message_count=messages, consumer_count=consumers)


def count(channel: Channel, name: str, id: int, shard: int, passive: bool) -> Asking:
    """Return the shard's numbers of a queue's messages and consumers. AMQPError if it is gone, unless it was declared
    and has been deleted since.
    """
    try:
        return (yield from ask_shard(shard, to_shard.Stat(id), about=described("queue", name, channel.access.vhost)))
    except AMQPError as error:
        if passive or error.code != 404:
            raise
        return 0, 0


def check_declare(channel: Channel, name: str, queue_arguments: dict[str, Any]) -> None:
    """Raise 403 without the right to configure it; a new queue that dead-letters takes more (RabbitMQ's rule), and
    write for its key.
    """
    name = name or SERVER_NAMED
    channel.access.check("configure", "queue", name)
    dead_letter_exchange = queue_arguments.get("x-dead-letter-exchange")
    if isinstance(dead_letter_exchange, str) and channel.acceptor.topology.queue(channel.access.vhost, name) is None:
        channel.access.check("read", "queue", name)
        channel.access.check("write", "exchange", dead_letter_exchange)
        key = queue_arguments.get("x-dead-letter-routing-key")
        if isinstance(key, str):
            exchange = channel.acceptor.topology.exchange(channel.access.vhost, dead_letter_exchange)
            channel.access.check_dead_letter_key(dead_letter_exchange, exchange, key)


def bind(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Have the router bind a queue; if both are empty, queue and routing key are the last queue declared on the
    channel.
    """
    name = named(channel, arguments["queue"])
    key = arguments["routing_key"]
    if not arguments["queue"] and not key:
        key = name
    vhost, source = channel.access.vhost, arguments["exchange"]
    maker = channel.access.maker_of(channel.acceptor.topology.exchange(vhost, source), source, key)
    wanted = Binding(vhost, source, "queue", name, key, arguments["arguments"], maker)
    yield from _bind(channel, "queue_bind", name, key, arguments, wanted, user=maker)
    if not arguments["nowait"]:
        channel.send("queue_bind_ok")


def unbind(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Have the router remove a queue's binding."""
    name = named(channel, arguments["queue"])
    yield from _bind(channel, "queue_unbind", name, arguments["routing_key"], arguments)
    channel.send("queue_unbind_ok")


def _bind(
    channel: Channel, request: str, name: str, key: str, arguments: dict[str, Any], wanted: Binding | None = None,
    **more: Any,
) -> Asking:  # fmt: skip
    channel.access.check("write", "queue", name)
    check_source(channel, arguments["exchange"], key)
    if wanted is not None and binding_is_equal(channel, wanted):
        find(channel, name)
        return
    yield from ask_router(
        request,
        vhost=channel.access.vhost,
        queue=name,
        source=arguments["exchange"],
        key=key,
        arguments=arguments["arguments"],
        connection=channel.connection.id,
        **more,
    )


def check_source(channel: Channel, exchange: str, key: str) -> None:
    """Raise 403 without the right to bind to an exchange, and to that routing key of it."""
    if exchange:  # the router refuses the default one to every user
        channel.access.check("read", "exchange", exchange)
        channel.access.check_topic("read", channel.acceptor.topology.exchange(channel.access.vhost, exchange), key)


def purge(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Have the shard empty a queue."""
    name = named(channel, arguments["queue"])
    channel.access.check("read", "queue", name)
    queue = find(channel, name)
    messages = yield from ask_shard(queue.shard, to_shard.Purge(queue.queue_id), about=str(queue))
    if not arguments["nowait"]:
        channel.send("queue_purge_ok", message_count=messages)


def delete(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Have the shard delete a queue. Deleting one that does not exist succeeds, as with RabbitMQ."""
    name = named(channel, arguments["queue"])
    channel.access.check("configure", "queue", name)
    messages = 0
    if channel.acceptor.topology.queue(channel.access.vhost, name) is not None:
        queue = find_to_take(channel, name)
        messages = yield from ask_shard(
            queue.shard, to_shard.Delete(queue.queue_id, arguments["if_unused"], arguments["if_empty"])
        )
    if not arguments["nowait"]:
        channel.send("queue_delete_ok", message_count=messages)


HANDLERS = {
    "queue_declare": declare,
    "queue_bind": bind,
    "queue_unbind": unbind,
    "queue_purge": purge,
    "queue_delete": delete,
}
