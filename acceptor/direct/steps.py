"""The steps that commands of direct connections share: publish a message and await its fate, await settlements."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from acceptor.clients.asking import AtGates, ToRouter, ToShard, Until, ask_shard
from acceptor.direct.channel import DirectChannel
from acceptor.direct.clients import DirectClients
from acceptor.direct.connection import DirectConnection
from acceptor.gates.rights import Undecided
from acceptor.logins.backend import Identity
from penstock.amqp.errors import AMQPError
from penstock.amqp.spec import BY_NAME
from penstock.bus import to_shard
from penstock.control.control import Refusal

Steps = Generator[ToRouter | ToShard | AtGates | Until, Any, Any]

WAIT_SECONDS = 2.0
"""How long a publish may wait for room."""
CONFIRM_SECONDS = 20.0
"""How long the confirm of a publish that has left may take: a shard is replaced within this time."""
BASIC_GET = BY_NAME["basic_get"]
LOGIN_REFUSED = "Login failed"
UNROUTABLE = 312
FULL = "rejected Unable to publish message. Check queue limits."
"""RabbitMQ's words."""


def logged_in(clients: DirectClients, name: str, password: str, host: str, vhost: str) -> Steps:
    """Log a user in that is not one of the node's own, and return its rights. Refusal if it may not open the vhost."""
    decision = yield Until(partial(clients.services.logins.check, name, password, host))
    if not isinstance(decision, Identity):
        raise Refusal("denied", LOGIN_REFUSED)
    while True:
        try:
            if decision.rights.may_open(vhost):
                return decision.rights
            raise Refusal("denied", "User not authorised to access virtual host")
        except Undecided as undecided:
            yield Until(undecided.start)


class NoRoom(Refusal):
    """A message was not published: there is no room for it at present."""


def published(
    clients: DirectClients, connection: DirectConnection, exchange: str, key: str, properties: bytes, body: bytes
) -> Steps:
    """Publish a message, and return whether a queue has it. Refusal if that is not known, and
    NoRoom if there is none."""
    channel = connection.channel
    channel.confirm = connection.returned = None
    try:
        channel.publish(exchange, key, properties, body)
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
        return False
    if not channel.confirm or connection.returned is not None:
        raise NoRoom("invalid", FULL)
    return True


def settled(channel: DirectChannel, name: str) -> Steps:
    """Wait until the shard of a queue has settled what came before this request."""
    queue = channel.acceptor.topology.queue(channel.access.vhost, name)
    if queue is not None:
        yield from ask_shard(queue.shard, to_shard.Stat(queue.queue_id), about=str(queue))


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
        raise NoRoom("busy", f"no room: {'the node is busy' if gate is None else gate.describe().text}")
