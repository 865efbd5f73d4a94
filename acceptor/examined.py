"""Publishes that are looked into one by one before they are taken: the scanner has marked them (`EXAMINED`).

They claim a user, have an odd expiration, further routing keys (CC and BCC) or ask for a direct reply; RabbitMQ's
reply codes and texts. The run is cut where routing keys change: each piece is a batch again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from acceptor.parked import ParkedRun
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.amqp.properties import PROPERTIES_AT, decode_properties, header_types, with_reply_to, without_header
from penstock.amqp.scan_cy import PublishRun
from penstock.amqp.values import ByteArray
from penstock.batch.batch_cy import HAS_CC, HAS_DIRECT_REPLY_TO, HAS_USER_ID, ODD_EXPIRATION, BatchBuilder
from router.model.users import IMPERSONATOR

if TYPE_CHECKING:
    from acceptor.channel_state import ChannelState
    from acceptor.routes import Routes

EXAMINED = HAS_USER_ID | HAS_CC | HAS_DIRECT_REPLY_TO | ODD_EXPIRATION
# How long a message may live at most: ten years, in milliseconds.
EXPIRATION_MAX = 315_360_000_000


def examined(channel: ChannelState, run: PublishRun, routes: Routes) -> Iterator[ParkedRun]:
    """The publishes of a run as they may be taken, in order. AMQPError at the first that may not."""
    # A publish to no exchange is refused for that, whatever else is wrong with it.
    routes.check(channel.access, run.address, ())
    batch = run.batch
    builder = BatchBuilder()
    further: tuple[str, ...] = ()
    refused: AMQPError | None = None
    for i in range(batch.count):
        address, header, body = batch.record(i)
        flags = batch.flags(i)
        keys: tuple[str, ...] = ()
        if flags & EXAMINED:
            try:
                header, keys = examine(channel, header, flags)
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
    batch = builder.finish()
    return ParkedRun(run.address, run.mandatory, batch, 0, batch.count, 0, further)


def examine(channel: ChannelState, header: bytes, flags: int) -> tuple[bytes, tuple[str, ...]]:
    """The header as it is to be delivered, and the further routing keys. AMQPError if the message may not be taken."""
    octets = header[PROPERTIES_AT:]
    properties = decode_properties(octets)
    if flags & HAS_DIRECT_REPLY_TO and channel.reply_consumer is None:
        raise amqp_error(406, "fast reply consumer does not exist")
    if flags & HAS_USER_ID and not channel.access.has_tag(IMPERSONATOR):
        check_user(properties["user_id"], channel.connection.user)
    if flags & ODD_EXPIRATION:
        check_expiration(cast(str, properties["expiration"]))
    keys: tuple[str, ...] = ()
    if flags & HAS_DIRECT_REPLY_TO:
        assert channel.reply_consumer is not None
        octets = with_reply_to(octets, channel.reply_consumer.name)
    if flags & HAS_CC:
        keys = further_keys(cast(dict[str, object], properties["headers"]), octets)
        octets = without_header(octets, "BCC")
    return header[:PROPERTIES_AT] + octets, keys


def check_user(claimed: object, user: str) -> None:
    if claimed != user:
        raise amqp_error(406, f"user_id property set to '{claimed}' but authenticated user was '{user}'")


def check_expiration(expiration: str) -> None:
    """As RabbitMQ reads it: an integer, perhaps with a sign, and nothing behind it."""
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


def further_keys(headers: Mapping[str, object], octets: bytes) -> tuple[str, ...]:
    """Routing keys of the headers CC and BCC: of their items those that are long strings."""
    keys: list[str] = []
    for name in ("CC", "BCC"):
        value = headers.get(name, [])
        if not isinstance(value, list):
            kind = header_types(octets)[name]
            raise amqp_error(406, f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}')
        for item in value:
            if isinstance(item, str):
                keys.append(item)
            elif isinstance(item, bytes) and not isinstance(item, ByteArray):
                keys.append(item.decode("utf-8", "surrogateescape"))
    return tuple(keys)
