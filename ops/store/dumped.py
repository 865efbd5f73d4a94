"""The file of `penstock store dump`: a stream of msgpack, one list an item, version 2.

    ["penstock dump", 2, {"penstock": version, "topology": version, "last_queue_id": id, "clock": noted}]     first
    ["topology", change]                           as the router publishes it (router/model/record_kind.py): vhosts,
                                                   users, permissions, policies, what is durable, placements
    ["shard", index]                               the items that follow are of this shard
    ["lease", queue id, priority, number]          messages of that priority with lower numbers may have been delivered
    ["message", queue id, number, expiry, returns, flags, exchange, routing key, header, body]
    ["end", messages]                              last: a file without it is cut off

Messages are the persistent ones that are not acknowledged, in the order of their queues. `number` counts in a queue and
priority; `expiry` is microseconds of the node's clock or None; `clock` is the reading of that
clock (`penstock.files.kept_clock`), which equals the wall clock if it is missing; `returns` is how often the message
was returned, if its queue counts that; `flags` are those of a row of a batch (penstock/batch/batch_cy.py); exchange,
routing key, header and body are bytes, the header is the payload of the content header frame (AMQP 0-9-1, 4.2.6.1),
with all properties as published.

Version 1 does not record who declared exchanges and queues.

A change of the format takes a new version; older versions must stay readable.
"""

from __future__ import annotations

from typing import Any, NamedTuple

MAGIC = "penstock dump"
VERSION = 2

TOPOLOGY, SHARD, LEASE, MESSAGE, END = "topology", "shard", "lease", "message", "end"


class Count(NamedTuple):
    """The contents of a dump in numbers; `nbytes` are bytes of bodies."""

    queues: int
    messages: int
    nbytes: int


def of_today(change: list[Any], version: int) -> list[Any]:
    """Convert a change in a dump of this version into the router's present form."""
    return [*change, None] if version == 1 and change[0] in ("exchange", "queue") else change
