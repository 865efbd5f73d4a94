"""Commands for users of the HTTP interface, with their rights, as clients of a vhost.

    command  arguments                                    result
    method   payload (of a method frame)                  the arguments of the method that answers it
    publish  exchange, routing_key, properties, body      {routed}
    get      queue, count, ack_mode, body_bytes           [{exchange, routing_key, redelivered, remaining, header, body,
                                                          size}]
    move     queue, target, count                         {moved, kept, remaining, stopped}

All take `user` (empty for the operator of the node), the `host` that it is at, and `vhost` as well; `name` and
`password` with which a user logs in that is not one of the node's own (empty for those), as only its backend knows its
rights. Payload, properties (as in a content header), header (the payload of one) and body are in base64. A get returns
at most `body_bytes` of each body (-1: all of it), whose `size` is that of the whole; `remaining` counts the ready
messages behind a message, as basic.get-ok does.

A publish that finds no room waits for a moment, and is refused as `busy` then; nothing of it is left. What a get has
not settled is requeued. `acceptor.direct.move_messages` describes a move.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from acceptor.direct.channel import DirectChannel
from acceptor.direct.clients import DirectClients
from acceptor.direct.connection import Contents, DirectConnection
from acceptor.direct.move_messages import move_messages
from acceptor.direct.steps import BASIC_GET, LOGIN_REFUSED, Steps, logged_in, published, settled
from penstock.amqp import methods_cy as methods
from penstock.amqp.errors import AMQPError
from penstock.control.control import Kind, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

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
ACK_MODES: dict[str, Callable[[DirectChannel, int], None]] = {
    "ack_requeue_true": lambda channel, tag: channel.settle(tag, "basic_nack", requeue=True),
    "reject_requeue_true": lambda channel, tag: channel.settle(tag, "basic_nack", requeue=True),
    "ack_requeue_false": lambda channel, tag: channel.settle(tag, "basic_ack"),
    "reject_requeue_false": lambda channel, tag: channel.settle(tag, "basic_nack", requeue=False),
}
"""RabbitMQ's modes: how messages are settled, up to a delivery tag."""
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
    contents = base64.b64decode(properties), base64.b64decode(body)
    return {"routed": (yield from published(clients, connection, exchange, routing_key, *contents))}


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
        yield from settled(channel, queue)
    return found


COMMANDS: dict[str, tuple[Callable[..., Steps], dict[str, type]]] = {
    "method": (method, {"payload": str}),
    "publish": (publish, {"exchange": str, "routing_key": str, "properties": str, "body": str}),
    "get": (get, {"queue": str, "count": int, "ack_mode": str, "body_bytes": int}),
    "move": (move_messages, {"queue": str, "target": str, "count": int}),
}
WHOSE: Mapping[str, type] = {"user": str, "name": str, "password": str, "host": str, "vhost": str}


def steps(
    clients: DirectClients, command: str, user: str, name: str, password: str, host: str, vhost: str, **arguments: Any
) -> Steps:
    """Carry out a command over a direct connection of a user. Refusal if it is refused."""
    if name:
        rights = yield from logged_in(clients, name, password, host, vhost)
        if rights.user != user:
            raise Refusal("denied", LOGIN_REFUSED)
    else:
        rights = clients.own(user)
    connection = clients.connect(rights, host, vhost)
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
