"""Class basic, but for what moves contents by the batch (AMQP 0-9-1, 1.8)."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from acceptor.asking import Answer, Asking, Handling, ToShard, ask_shard
from acceptor.consumer_arguments import consumer_priority, lease_of
from acceptor.consumers import Consumer
from acceptor.methods import replies
from acceptor.methods.queue import find, named
from penstock import bus
from penstock.amqp.encode_cy import GET_OK
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.amqp.replies import PSEUDO_QUEUE
from penstock.amqp.scan_cy import SETTLE_REQUEUE
from router.model.topology import Queue

if TYPE_CHECKING:
    from acceptor.channel import Channel


def qos(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Prefetch for consumers started from now on, or (global) for all of the channel together, as RabbitMQ has it.

    From clients that mean running consumers as well (`Traits.qos_of_running`) it is for these, too.
    """
    if arguments["prefetch_size"]:
        raise amqp_error(540, f"prefetch_size!=0 ({arguments['prefetch_size']})")
    if arguments["global_"]:
        yield from channel.shared_prefetch.change(arguments["prefetch_count"])
    else:
        count, most = arguments["prefetch_count"], channel.acceptor.settings.amqp.prefetch_max
        channel.prefetch = min(count or most, most) if most else count
        if channel.connection.traits.qos_of_running:
            yield from change_prefetch(channel)
    channel.send("basic_qos_ok")


def change_prefetch(channel: Channel) -> Asking:
    """What is said of consumers that are started from now on holds for those that are there."""
    for consumer in channel.consumers.values():
        consumer.prefetch = channel.prefetch
    for shard, ids in channel.consumers_by_shard().items():
        yield from ask_shard(shard, bus.PREFETCH, ids, channel.prefetch)


def consume(channel: Channel, arguments: dict[str, Any]) -> Handling:
    yield from channel.services.outputs.gets.turn_to_consume(channel)
    tag = arguments["consumer_tag"] or "amq.ctag-" + base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
    if tag in channel.consumers:
        raise amqp_error(530, f"attempt to reuse consumer tag '{tag}'")
    most = channel.acceptor.settings.amqp.consumers_per_channel
    if most and len(channel.consumers) >= most:
        raise amqp_error(530, f"reached maximum ({most}) of consumers per channel")
    name = named(channel, arguments["queue"])
    if name == PSEUDO_QUEUE:
        yield from replies.consume(channel, tag, arguments)
        return
    channel.access.check("read", "queue", name)
    queue = find(channel, name)
    consumer = Consumer(
        channel.services.delivery.next_consumer(queue.shard), channel, queue, tag,
        arguments["no_ack"], arguments["exclusive"], channel.prefetch,
        consumer_priority(queue, arguments["arguments"]), lease_of(queue, arguments["arguments"], arguments["no_ack"]),
    )  # fmt: skip
    channel.shards.add(queue.shard)
    yield from channel.shared_prefetch.join(queue.shard)
    # It is known before the shard answers: deliveries may come with the answer.
    channel.consumers[tag] = consumer
    channel.services.delivery.consumers[consumer.id] = consumer
    channel.services.throttle.begins_to_settle(channel.connection)
    answer: Answer = yield ToShard(queue.shard, consumer.operation())
    if answer.error is not None:
        del channel.consumers[tag]
        channel.services.delivery.forget(consumer)
        raise refused(queue, answer.error)
    consumer.age = answer.result
    if not arguments["nowait"]:
        channel.send("basic_consume_ok", consumer_tag=tag)


def refused(queue: Queue, error: Sequence[Any]) -> AMQPError:
    """Why a shard refuses; the name of a queue that has just gone is known only here."""
    code, text = error
    return amqp_error(code, f"no {queue}" if code == 404 else text)


def cancel(channel: Channel, arguments: dict[str, Any]) -> Handling:
    tag = arguments["consumer_tag"]
    consumer = channel.consumers.get(tag)
    if channel.reply_consumer is not None and channel.reply_consumer.tag == tag:
        channel.services.replies.cancel(channel)
    elif consumer is not None:
        yield from ask_shard(consumer.queue.shard, bus.CANCEL, consumer.id)
        if channel.consumers.pop(tag, None) is not None:
            channel.services.delivery.forget(consumer)
    if not arguments["nowait"]:
        channel.send("basic_cancel_ok", consumer_tag=tag)


def cancel_ok(channel: Channel, arguments: dict[str, Any]) -> None:
    """Some clients answer the cancel that we sent; it needed no answer."""


def get(channel: Channel, arguments: dict[str, Any]) -> Handling:
    gets = channel.services.outputs.gets
    yield from gets.turn(channel)
    try:
        yield from get_in_turn(channel, arguments)
    finally:
        gets.got(channel.connection)


def get_in_turn(channel: Channel, arguments: dict[str, Any]) -> Handling:
    name = named(channel, arguments["queue"])
    channel.access.check("read", "queue", name)
    queue = find(channel, name)
    getter = channel.getters.get(queue.queue_id)
    if getter is None:
        getter = channel.getters[queue.queue_id] = channel.services.delivery.next_getter(queue.shard)
        channel.shards.add(queue.shard)
    no_ack = arguments["no_ack"]
    answer: Answer = yield ToShard(queue.shard, [bus.GET, 0, getter, queue.queue_id, no_ack, channel.group])
    if answer.error is not None:
        raise refused(queue, answer.error)
    if answer.result is None:
        channel.send("basic_get_empty")
        return
    sequence, part, redelivered, left = answer.result
    getter = channel.getters[queue.queue_id]  # the queue may have moved meanwhile
    batch = bus.batch_at(answer.parts, part)
    tag = (
        channel.unacked.skip(1)
        if no_ack
        else channel.unacked.deliver(getter, sequence, 1, int(channel.acceptor.now), batch.whole(0, 1))
    )
    channel.services.throttle.begins_to_settle(channel.connection)
    suffix = left.to_bytes(4, "big")
    channel.connection.write_contents(channel.number, GET_OK, tag, redelivered, suffix, batch, 0, 1)


def recover(channel: Channel, arguments: dict[str, Any]) -> None:
    recover_async(channel, arguments)
    channel.send("basic_recover_ok")


def recover_async(channel: Channel, arguments: dict[str, Any]) -> None:
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
