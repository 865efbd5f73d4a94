"""How much of the topology there may be: each process that routes, or holds queues, has a copy of it in memory.

What counts is what a declaration brings: names, routing key and arguments, and `RECORD` for being a queue, an exchange
or a binding. It counts for all, and for the user who made it, who has a share: nobody takes all of it from others. What
was there before a limit was lowered stays; new ones are refused until there is room.
"""

from __future__ import annotations

from collections import Counter
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
    """The octets of arguments that one declaration may have, that all declarations may take (0: no limit), and those of
    one user (0: no other limit).
    """

    arguments: int = 16 * 1024
    topology: int = 0
    of_user: int = 0


class Taken:
    """What the topology takes, octets: `made` by whom, and in all. What no user has made is that of None."""

    def __init__(self, topology: Topology) -> None:
        self.made: Counter[str | None] = Counter()
        self.octets = 0
        for kind, *fields in topology.changes():
            if kind in _MADE:
                record = _MADE[kind](*fields)
                self.count(record.maker, octets_of(record))

    def count(self, maker: str | None, octets: int) -> None:
        """So much more is taken by what somebody has made, or less."""
        self.octets += octets
        self.made[maker] += octets
        if not self.made[maker]:
            del self.made[maker]

    def follow(self, topology: Topology, change: Change) -> None:
        """A change is about to be made."""
        kind, *fields = change
        made, gone = kind.removesuffix("_gone"), kind.endswith("_gone")
        if made not in _MADE:
            return
        known: Exchange | Queue | Binding | None
        if made == "binding":
            known = topology.binding(Binding(*fields)) if gone else None
        elif made == "queue":
            known = topology.queue(*fields[:2])
        else:
            known = topology.exchange(*fields[:2])
        if known is not None:
            self.count(known.maker, -octets_of(known))
        if not gone:
            record = _MADE[made](*fields)
            self.count(record.maker, octets_of(record))


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


_MADE: dict[str, Callable[..., Exchange | Queue | Binding]] = {
    "exchange": Exchange, "queue": Queue, "binding": Binding,
}  # fmt: skip


def check(record: Exchange | Queue | Binding, taken: Taken, bounds: Bounds) -> None:
    """406 unless something new may be declared, with so much taken already."""
    octets = len(pack(dict(record.arguments)))
    if octets > bounds.arguments:
        raise amqp_error(
            406, f"{record} has {octets} bytes of arguments, more than {bounds.arguments} (amqp.max_arguments_bytes)"
        )
    more = octets_of(record)
    if bounds.topology and taken.octets + more > bounds.topology:
        raise amqp_error(
            406,
            f"cannot declare {record}: queues, exchanges and bindings of the node take {taken.octets} bytes, of "
            f"{bounds.topology} (max_topology_bytes)",
        )
    own = taken.made[record.maker]
    if bounds.of_user and record.maker is not None and own + more > bounds.of_user:
        raise amqp_error(
            406,
            f"cannot declare {record}: queues, exchanges and bindings of user '{record.maker}' take {own} bytes, of "
            f"{bounds.of_user} (user_topology_percent)",
        )
