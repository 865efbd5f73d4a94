"""Publishes that are examined one by one before they are accepted: the scanner has marked them (`EXAMINED`).

They claim a user, have an odd expiration or further routing keys (CC and BCC), or ask for a direct reply. Reply codes
and texts are RabbitMQ's. The run is cut where routing keys change: each piece is a batch again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from acceptor.clients.parked import ParkedRun
from acceptor.gates.rights import Undecided
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.amqp.properties import PROPERTIES_AT, decode_properties, header_types, with_reply_to, without_header
from penstock.amqp.scan_cy import PublishRun
from penstock.amqp.values import ByteArray
from penstock.batch.batch_cy import HAS_CC, HAS_DIRECT_REPLY_TO, HAS_USER_ID, ODD_EXPIRATION, BatchBuilder
from router.model.delaying import delay_of
from router.model.users import IMPERSONATOR

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.routing.routes import Routes

EXAMINED = HAS_USER_ID | HAS_CC | HAS_DIRECT_REPLY_TO | ODD_EXPIRATION
# The longest expiration of a message: ten years, in milliseconds.
EXPIRATION_MAX = 315_360_000_000


def examined(channel: ChannelState, run: PublishRun, routes: Routes) -> Iterator[ParkedRun]:
    """Yield the publishes of a run in the form in which they are accepted, in order. AMQPError at the first invalid
    one.
    """
    # A missing exchange is reported first, whatever else is wrong with the publish.
    with suppress(Undecided):  # a right that is not known yet is asked for when the route is made
        routes.check(channel.access, run.address, ())
    batch = run.batch
    delays = routes.delays(channel.access, run.address)
    builder = BatchBuilder()
    further: tuple[str, ...] = ()
    refused: AMQPError | None = None
    for i in range(batch.count):
        address, header, body = batch.record(i)
        flags = batch.flags(i)
        keys: tuple[str, ...] = ()
        if flags & EXAMINED:
            try:
                header, keys = examine(channel, header, flags, delays)
            except AMQPError as error:
                refused = error
                break
        if keys != further and builder.count:
            yield piece(run, builder, further)
            builder = BatchBuilder()
        further = keys
        builder.add(address, header, body, flags)
    if builder.count:
        yield piece(run, builder, further)
    if refused is not None:
        raise refused


def piece(run: PublishRun, builder: BatchBuilder, further: tuple[str, ...]) -> ParkedRun:
    """Return the messages of a builder as a run."""
    batch = builder.finish()
    return ParkedRun(run.address, run.mandatory, batch, 0, batch.count, 0, further)


def examine(channel: ChannelState, header: bytes, flags: int, delays: bool) -> tuple[bytes, tuple[str, ...]]:
    """Return the header to deliver, or to publish to an exchange that `delays`, and the further routing keys. AMQPError
    if the message is invalid.
    """
    data = header[PROPERTIES_AT:]
    properties = decode_properties(data)
    if flags & HAS_DIRECT_REPLY_TO and channel.receiving.reply_consumer is None:
        raise amqp_error(406, "fast reply consumer does not exist")
    if flags & HAS_USER_ID and not channel.access.has_tag(IMPERSONATOR):
        check_user(properties["user_id"], channel.connection.user)
    if flags & ODD_EXPIRATION:
        check_expiration(cast(str, properties["expiration"]))
    keys: tuple[str, ...] = ()
    if flags & HAS_DIRECT_REPLY_TO:
        assert channel.receiving.reply_consumer is not None
        data = with_reply_to(data, channel.receiving.reply_consumer.name)
    if flags & HAS_CC:
        headers = cast(dict[str, object], properties["headers"])
        keys = further_keys(headers, data)
        if not (delays and delay_of(headers)):  # else its shard needs all keys, and removes the header
            data = without_header(data, "BCC")
    return header[:PROPERTIES_AT] + data, keys


def check_user(claimed: object, user: str) -> None:
    """Raise 406 if the claimed user is not the authenticated one."""
    if claimed != user:
        raise amqp_error(406, f"user_id property set to '{claimed}' but authenticated user was '{user}'")


def check_expiration(expiration: str) -> None:
    """Raise 406 unless the expiration is valid as RabbitMQ reads it: an integer, perhaps with a sign, nothing behind
    it, and from 0 to `EXPIRATION_MAX`.
    """
    number = re.match(r"[+-]?[0-9]+", expiration)
    if number is None:
        reason = "no_integer"
    elif number.end() < len(expiration):
        reason = f'{{leftover_string,"{expiration[number.end() :]}"}}'
    elif int(number[0]) < 0:
        reason = f"{{value_negative,{int(number[0])}}}"
    elif int(number[0]) > EXPIRATION_MAX:
        reason = f"{{value_too_large,{int(number[0])}}}"
    else:
        return
    raise amqp_error(406, f"invalid expiration '{expiration}': {reason}")


def further_keys(headers: Mapping[str, object], data: bytes) -> tuple[str, ...]:
    """Return the routing keys in the headers CC and BCC: their long strings. 406 if a header is no list."""
    keys: list[str] = []
    for name in ("CC", "BCC"):
        value = headers.get(name, [])
        if not isinstance(value, list):
            kind = header_types(data)[name]
            raise amqp_error(406, f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}')
        for item in value:
            if isinstance(item, str):
                keys.append(item)
            elif isinstance(item, bytes) and not isinstance(item, ByteArray):
                keys.append(item.decode("utf-8", "surrogateescape"))
    return tuple(keys)
