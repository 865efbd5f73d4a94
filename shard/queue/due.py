"""A delayed message (router/model/delaying.py) as it is published again when it is due."""

from __future__ import annotations

from penstock.amqp.properties import PROPERTIES_AT, decode_properties
from penstock.amqp.splice import join_properties, join_table, number, split_properties, split_table
from router.model.delaying import DELAY_HEADER, delay_of
from shard.queue.dead_letters import DeadLetter, Record, texts

_DELAY = DELAY_HEADER.encode()


def due_letter(record: Record) -> DeadLetter:
    """A message as its exchange routes it at last, with its routing keys: the delay is negated, as with RabbitMQ's
    plugin, and BCC is removed.
    """
    address, header, body = record
    payload = header[PROPERTIES_AT:]
    properties = split_properties(payload)
    headers = split_table(properties.get("headers", join_table({})))
    keys = [address[2 + address[0] :], *texts(headers.get(b"CC", b"")), *texts(headers.pop(b"BCC", b""))]
    decoded = decode_properties(payload).get("headers", {})
    assert isinstance(decoded, dict)
    headers[_DELAY] = number(-delay_of(decoded))
    properties["headers"] = join_table(headers)
    return DeadLetter((address, header[:PROPERTIES_AT] + join_properties(properties), body), keys, [])
