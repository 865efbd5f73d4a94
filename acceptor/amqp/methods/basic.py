"""Class basic, except for methods that move contents by the batch (AMQP 0-9-1, 1.8)."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from acceptor.amqp.methods.queue import find_to_take, named
from acceptor.amqp.methods.replies import consume as consume_replies
from acceptor.clients.asking import Answer, Asking, Handling, ToShard, ask_shard
from acceptor.clients.consumer_arguments import consumer_priority, lease_of
from acceptor.clients.consumers import Consumer
from penstock import bus
from penstock.amqp.encode_cy import GET_OK
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.amqp.replies import PSEUDO_QUEUE
from penstock.batch.settlement_rows import SETTLE_REQUEUE
from penstock.bus import to_acceptor, to_shard
from router.model.topology import Queue

if TYPE_CHECKING:
    from acceptor.amqp.channel import Channel


def qos(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Set the prefetch of consumers started later, or (global) of all consumers of the channel together, as RabbitMQ
    has it.

    From clients that mean running consumers as well (`Traits.qos_of_running`) it applies to these, too.
    """
    if arguments["prefetch_size"]:
        raise amqp_error(540, f"prefetch_size!=0 ({arguments['prefetch_size']})")
    if arguments["global_"]:
        yield from channel.shared_prefetch.change(arguments["prefetch_count"])
    else:
        count, most = arguments["prefetch_count"], channel.acceptor.settings.amqp.prefetch_max
        channel.receiving.prefetch = min(count or most, most) if most else count
        if channel.connection.client.traits.qos_of_running:
            yield from change_prefetch(channel)
    channel.send("basic_qos_ok")


def change_prefetch(channel: Channel) -> Asking:
    """Apply the channel's prefetch to its running consumers."""
    for consumer in channel.consumers.values():
        consumer.prefetch = channel.receiving.prefetch
    for shard, ids in channel.consumers_by_shard().items():
        yield from ask_shard(shard, to_shard.Prefetch(ids, channel.receiving.prefetch))


def consume(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Start a consumer."""
    yield from channel.services.outputs.gets.turn_to_consume(channel)
    tag = arguments["consumer_tag"] or "amq.ctag-" + base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
    if tag in channel.consumers:
        raise amqp_error(530, f"attempt to reuse consumer tag '{tag}'")
    most = channel.acceptor.settings.amqp.consumers_per_channel
    if most and len(channel.consumers) >= most:
        raise amqp_error(530, f"reached maximum ({most}) of consumers per channel")
    name = named(channel, arguments["queue"])
    if name == PSEUDO_QUEUE:
        yield from consume_replies(channel, tag, arguments)
        return
    channel.access.check("read", "queue", name)
    queue = find_to_take(channel, name)
    consumer = Consumer(
        channel.services.delivery.next_consumer(queue.shard), channel, queue, tag,
        arguments["no_ack"], arguments["exclusive"], channel.receiving.prefetch,
        consumer_priority(queue, arguments["arguments"]), lease_of(queue, arguments["arguments"], arguments["no_ack"]),
    )  # fmt: skip
    channel.shards.add(queue.shard)
    yield from channel.shared_prefetch.join(queue.shard)
    # Registered before the shard answers: deliveries may come with the answer.
    channel.consumers[tag] = consumer
    channel.services.delivery.consumers[consumer.id] = consumer
    channel.services.holding.begins_to_settle(channel.connection)
    answer: Answer = yield ToShard(queue.shard, consumer.request())
    if answer.error is not None:
        del channel.consumers[tag]
        channel.services.delivery.forget(consumer)
        raise refused(queue, answer.error)
    consumer.age = answer.result
    if not arguments["nowait"]:
        channel.send("basic_consume_ok", consumer_tag=tag)


def refused(queue: Queue, error: Sequence[Any]) -> AMQPError:
    """Return the error for a shard's refusal; only the acceptor knows the name of a queue that has just gone."""
    code, text = error
    return amqp_error(code, f"no {queue}" if code == 404 else text)


def cancel(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Cancel a consumer, or the reply consumer of the channel."""
    tag = arguments["consumer_tag"]
    consumer = channel.consumers.get(tag)
    if channel.receiving.reply_consumer is not None and channel.receiving.reply_consumer.tag == tag:
        channel.services.replies.cancel(channel)
    elif consumer is not None:
        yield from ask_shard(consumer.queue.shard, to_shard.Cancel(consumer.id))
        if channel.consumers.pop(tag, None) is not None:
            channel.services.delivery.forget(consumer)
            channel.leave_to_lease(consumer)
    if not arguments["nowait"]:
        channel.send("basic_cancel_ok", consumer_tag=tag)


def cancel_ok(channel: Channel, arguments: dict[str, Any]) -> None:
    """Ignore some clients' answer to the broker's basic.cancel, which needs none."""


def get(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Wait for a turn of the connection, then get a message."""
    gets = channel.services.outputs.gets
    yield from gets.turn(channel)
    try:
        yield from get_in_turn(channel, arguments)
    finally:
        gets.got(channel.connection)


def get_in_turn(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Get a message from a queue's shard, or none."""
    name = named(channel, arguments["queue"])
    channel.access.check("read", "queue", name)
    queue = find_to_take(channel, name)
    getter = channel.getters.get(queue.queue_id)
    if getter is None:
        getter = channel.getters[queue.queue_id] = channel.services.delivery.next_getter(queue.shard)
        channel.shards.add(queue.shard)
    no_ack = arguments["no_ack"]
    answer: Answer = yield ToShard(queue.shard, to_shard.Get(getter, queue.queue_id, no_ack, channel.group))
    if answer.error is not None:
        raise refused(queue, answer.error)
    if answer.result is None:
        channel.traffic.got_empty += 1
        channel.send("basic_get_empty")
        return
    got = to_acceptor.Got(*answer.result)
    getter = channel.getters[queue.queue_id]  # the queue may have moved meanwhile
    batch = bus.batch_at(answer.parts, got.part)
    if no_ack:
        tag = channel.unacked.skip(1)
        channel.traffic.got_no_ack += 1
    else:
        tag = channel.unacked.deliver(getter, got.sequence, 1, int(channel.acceptor.now), batch.whole(0, 1))
        channel.traffic.got += 1
    channel.traffic.redelivered += got.redelivered
    channel.services.holding.begins_to_settle(channel.connection)
    suffix = got.remaining.to_bytes(4, "big")
    channel.connection.write_contents(channel.number, GET_OK, tag, got.redelivered, suffix, batch, 0, 1)


def recover(channel: Channel, arguments: dict[str, Any]) -> None:
    """Requeue all unacked messages of the channel."""
    recover_async(channel, arguments)
    channel.send("basic_recover_ok")


def recover_async(channel: Channel, arguments: dict[str, Any]) -> None:
    """Requeue all unacked messages of the channel, without an answer. 540 with requeue=false."""
    if not arguments["requeue"]:
        raise amqp_error(540, "requeue=false")
    channel.unacked.settle_all(SETTLE_REQUEUE, channel.services.settling.places(channel.shards))
    channel.shared_prefetch.serve()


HANDLERS = {
    "basic_qos": qos,
    "basic_consume": consume,
    "basic_cancel": cancel,
    "basic_cancel_ok": cancel_ok,
    "basic_get": get,
    "basic_recover": recover,
    "basic_recover_async": recover_async,
}
