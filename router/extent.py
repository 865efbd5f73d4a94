"""How much of the topology there may be: each process that routes, or holds queues, has a copy of it in memory.

What counts is what a declaration brings: names, routing key and arguments, and `RECORD` for being a queue, an exchange
or a binding. What was there before a limit was lowered stays; new ones are refused until there is room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.amqp.errors import amqp_error
from penstock.bus import pack
from router.records import Binding, Change, Exchange, Queue
from router.topology import Topology

RECORD = 3 * 1024
"""Octets that a queue, an exchange or a binding takes beside its names and arguments, about."""

PROCESS_SHARE = 4
"""Unless there is a setting, all copies together may take one in so many octets of `memory.process_limit`."""


class Bounds(NamedTuple):
    """The octets of arguments that one declaration may have, and that all declarations may take (0: no limit)."""

    arguments: int = 16 * 1024
    topology: int = 0


def topology_limit(setting: int, process_limit: int, copies: int) -> int:
    """The octets that the topology may take, in each of so many processes."""
    return setting or process_limit // (PROCESS_SHARE * copies)


def octets_of(record: Exchange | Queue | Binding) -> int:
    """What a record takes."""
    if isinstance(record, Binding):
        words: tuple[str, ...] = (record.vhost, record.source, record.destination, record.key)
    else:
        words = record.vhost, record.name
    return RECORD + sum(map(len, words)) + len(pack(dict(record.arguments)))


def total(topology: Topology) -> int:
    """What all of it takes."""
    return sum(octets_of(_MADE[change[0]](*change[1:])) for change in topology.changes() if change[0] in _MADE)


def difference(topology: Topology, change: Change) -> int:
    """How much more the topology takes by a change that it has not taken in yet."""
    kind, *fields = change
    made, gone = kind.removesuffix("_gone"), kind.endswith("_gone")
    if made not in _MADE:
        return 0
    if made == "binding":
        octets = octets_of(Binding(*fields))
        return -octets if gone else octets
    known = topology.queue(*fields[:2]) if made == "queue" else topology.exchange(*fields[:2])
    before = 0 if known is None else octets_of(known)
    return -before if gone else octets_of(_MADE[kind](*fields)) - before


_MADE: dict[str, Callable[..., Exchange | Queue | Binding]] = {
    "exchange": Exchange, "queue": Queue, "binding": Binding,
}  # fmt: skip


def check(record: Exchange | Queue | Binding, held: int, bounds: Bounds) -> None:
    """406 unless something new may be declared, with so many octets taken already."""
    octets = len(pack(dict(record.arguments)))
    if octets > bounds.arguments:
        raise amqp_error(
            406, f"{record} has {octets} bytes of arguments, more than {bounds.arguments} (amqp.max_arguments_bytes)"
        )
    if bounds.topology and held + octets_of(record) > bounds.topology:
        raise amqp_error(
            406,
            f"cannot declare {record}: queues, exchanges and bindings of the node take {held} bytes, of "
            f"{bounds.topology} (max_topology_bytes)",
        )
