"""Commands for users of the HTTP interface, with their rights, as clients of a vhost.

    command  arguments                                    result
    method   payload (of a method frame)                  the arguments of the method that answers it
    publish  exchange, routing_key, properties, body      {routed}
    get      queue, count, ack_mode, body_bytes           [{exchange, routing_key, redelivered, remaining, header, body,
                                                          size}]

All take `user`, one of the node's own, the `host` that it is at, and `vhost` as well. Payload, properties (as in a
content header), header (the payload of one) and body are in base64. A get returns at most `body_bytes` of each body
(-1: all of it), whose `size` is that of the whole; `remaining` counts the ready messages behind a message, as
basic.get-ok does.

A publish that finds no room waits for a moment, and is refused as `busy` then; nothing of it is left. What a get has
not settled is requeued.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from acceptor.clients.asking import AtGates, ToRouter, ToShard, Until, ask_shard
from acceptor.direct.channel import DirectChannel
from acceptor.direct.clients import DirectClients
from acceptor.direct.connection import Contents, DirectConnection
from penstock.amqp import methods_cy as methods
from penstock.amqp.errors import AMQPError
from penstock.amqp.spec import BY_NAME
from penstock.bus import to_shard
from penstock.control.control import Kind, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

Steps = Generator[ToRouter | ToShard | AtGates | Until, Any, Any]

WAIT_SECONDS = 2.0
"""How long a publish may wait for room."""
CONFIRM_SECONDS = 20.0
"""How long the confirm of a publish that has left may take: a shard is replaced within this time."""
GET_SECONDS = 5.0
"""After this time a get brings no more messages."""
GET_BYTES = 8 * 1024 * 1024
"""Bytes of all messages that one get brings."""
MESSAGE_BYTES = 512
"""What a message counts for beside its header and body."""
METHODS = frozenset({
    "queue_declare", "queue_purge", "queue_delete", "queue_bind", "queue_unbind", "exchange_declare", "exchange_delete",
    "exchange_bind", "exchange_unbind",
})  # fmt: skip
BASIC_GET = BY_NAME["basic_get"]
ACK_MODES: dict[str, Callable[[DirectChannel, int], None]] = {
    "ack_requeue_true": lambda channel, tag: channel.settle(tag, "basic_nack", requeue=True),
    "reject_requeue_true": lambda channel, tag: channel.settle(tag, "basic_nack", requeue=True),
    "ack_requeue_false": lambda channel, tag: channel.settle(tag, "basic_ack"),
    "reject_requeue_false": lambda channel, tag: channel.settle(tag, "basic_nack", requeue=False),
}
"""RabbitMQ's modes: how messages are settled, up to a delivery tag."""
UNROUTABLE = 312
FULL = "rejected Unable to publish message. Check queue limits."
"""RabbitMQ's words."""
KINDS: dict[int, Kind] = {403: "denied", 404: "not_found", 541: "failed"}


def method(_clients: DirectClients, connection: DirectConnection, payload: str) -> Steps:
    """Carry out a method on the topology or a queue."""
    found, arguments = methods.decode(base64.b64decode(payload))
    if found.name not in METHODS or arguments.get("nowait"):
        raise Refusal("invalid", f"{found.amqp_name} is not carried out here")
    yield from connection.channel.call(found, arguments)
    return connection.answers[f"{found.name}_ok"]


def publish(
    clients: DirectClients, connection: DirectConnection, exchange: str, routing_key: str, properties: str, body: str
) -> Steps:
    """Publish a message, and wait until it is confirmed or returned."""
    channel = connection.channel
    try:
        channel.publish(exchange, routing_key, base64.b64decode(properties), base64.b64decode(body))
        if channel.messages_parked():
            yield from _room(clients, channel)
        if not channel.is_decided:
            yield Until(partial(channel.outcome_within, CONFIRM_SECONDS))
        if channel.error is not None:
            raise channel.error
    except AMQPError as error:  # RabbitMQ's management has other errors for publishes than for methods
        raise Refusal("failed" if error.code == 541 else "invalid", str(error)) from None
    if channel.confirm is None:
        raise Refusal("busy", f"not confirmed for {CONFIRM_SECONDS:.0f} seconds: the message may be stored, or lost")
    if connection.returned == UNROUTABLE:
        return {"routed": False}
    if not channel.confirm or connection.returned is not None:
        raise Refusal("invalid", FULL)
    return {"routed": True}


def get(
    _clients: DirectClients, connection: DirectConnection, queue: str, count: int, ack_mode: str, body_bytes: int
) -> Steps:
    """Get messages one by one, as long as they do not become too large together, and settle them all in one mode."""
    channel = connection.channel
    if ack_mode not in ACK_MODES:
        raise Refusal("invalid", f"ack_mode is not one of {', '.join(ACK_MODES)}")
    until, left, last = channel.acceptor.now + GET_SECONDS, GET_BYTES, 0
    found: list[dict[str, Any]] = []
    while len(found) < count and channel.acceptor.now < until:
        connection.got = None
        yield from channel.call(BASIC_GET, {"queue": queue, "no_ack": False})
        got = connection.got
        if got is None:
            break
        body = got.body if body_bytes < 0 else got.body[:body_bytes]
        left -= len(got.header) + len(body) + MESSAGE_BYTES
        if left < 0:
            if not found:
                raise Refusal("invalid", f"the message has {len(got.body)} bytes, more than {GET_BYTES}: truncate it")
            break
        last = got.tag
        found.append(_described(got, body))
    if last:
        ACK_MODES[ack_mode](channel, last)
        yield from _settled(channel, queue)
    return found


COMMANDS: dict[str, tuple[Callable[..., Steps], dict[str, type]]] = {
    "method": (method, {"payload": str}),
    "publish": (publish, {"exchange": str, "routing_key": str, "properties": str, "body": str}),
    "get": (get, {"queue": str, "count": int, "ack_mode": str, "body_bytes": int}),
}
WHOSE: Mapping[str, type] = {"user": str, "host": str, "vhost": str}


def steps(clients: DirectClients, command: str, user: str, host: str, vhost: str, **arguments: Any) -> Steps:
    """Carry out a command over a direct connection of a user. Refusal if it is refused."""
    connection = clients.connect(user, host, vhost)
    try:
        return (yield from COMMANDS[command][0](clients, connection, **arguments))
    except AMQPError as error:
        text = (
            error.reply_text if error.code == 403 or command == "get" else error.text
        )  # RabbitMQ's management does so
        raise Refusal(KINDS.get(error.code, "invalid"), text) from None
    except (TypeError, ValueError, binascii.Error) as error:
        raise Refusal("invalid", str(error)) from None
    finally:
        connection.end()


def _room(clients: DirectClients, channel: DirectChannel) -> Steps:
    """Wait until the publish has left, or is decided. Refusal if there is no room for it."""
    if clients.may_wait():
        clients.waiting += 1
        try:
            yield Until(partial(channel.outcome_within, WAIT_SECONDS))
        finally:
            clients.waiting -= 1
    if channel.messages_parked():
        gate = channel.cause()
        raise Refusal("busy", f"no room: {'the node is busy' if gate is None else gate.describe().text}")


def _settled(channel: DirectChannel, name: str) -> Steps:
    """Wait until the shard of a queue has settled what came before this request."""
    queue = channel.acceptor.topology.queue(channel.access.vhost, name)
    if queue is not None:
        yield from ask_shard(queue.shard, to_shard.Stat(queue.queue_id), about=str(queue))


def _described(got: Contents, body: bytes) -> dict[str, Any]:
    key_at = got.address[0] + 1
    return {
        "exchange": got.address[1:key_at].decode("utf-8", "surrogateescape"),
        "routing_key": got.address[key_at + 1 :].decode("utf-8", "surrogateescape"),
        "redelivered": got.redelivered,
        "remaining": got.remaining,
        "header": base64.b64encode(got.header).decode(),
        "body": base64.b64encode(body).decode(),
        "size": len(got.body),
    }
