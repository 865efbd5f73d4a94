"""How much of the topology there may be: each process that routes, or holds queues, has a copy of it in memory.

What counts is what a declaration brings: names, routing key and arguments, and `RECORD` for being a queue, an exchange
or a binding, of that `ARGUMENT` for each argument too. It counts for all, and for the user who made it, who has a
share: nobody takes all of it from others. What was there before a limit was lowered stays; new ones are refused until
there is room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from penstock.amqp.errors import amqp_error
from penstock.bus import pack
from penstock.settings.limits import LimitSettings
from router.model.records import Binding, Change, Exchange, Queue
from router.model.resource_limits import Counted, Holder, Scope
from router.model.topology import Topology

RECORD = 3 * 1024
"""Octets that a queue, an exchange or a binding takes beside its names and arguments, about."""

ARGUMENT = 512
"""Octets that each argument of a binding takes beside itself, where a headers exchange finds the binding by it."""

PROCESS_SHARE = 4
"""Unless there is a setting, all copies together may take one in so many octets of `memory.process_limit`."""


class Bounds(NamedTuple):
    """The octets of arguments that one declaration may have, that all declarations may take (0: no limit), and those of
    one user (0: no other limit); and how many a vhost and a user may have where no command says so.
    """

    arguments: int = 16 * 1024
    topology: int = 0
    of_user: int = 0
    limits: LimitSettings = LimitSettings()


class Taken:
    """What the topology takes, octets: `made` by whom, and in all. What no user has made is that of None. `numbers` is
    how many there are, of a vhost and of a user; `touched` are those of them that have changed, they or their limits.
    """

    def __init__(self, topology: Topology) -> None:
        self.made: Counter[str | None] = Counter()
        self.octets = 0
        self.numbers: Counter[tuple[Holder, Counted]] = Counter()
        self.touched: set[tuple[Holder, Counted]] = set()
        for kind, *fields in topology.changes():
            if kind in _MADE:
                self.count(_MADE[kind](*fields), 1)

    def count(self, record: Exchange | Queue | Binding, number: int) -> None:
        """There is one more (1) or one less (-1)."""
        octets, maker = number * octets_of(record), record.maker
        self.octets += octets
        self.made[maker] += octets
        if not self.made[maker]:
            del self.made[maker]
        for holder in holders(record):
            key = holder, COUNTED[type(record)]
            self.touched.add(key)
            self.numbers[key] += number
            if not self.numbers[key]:
                del self.numbers[key]

    def follow(self, topology: Topology, change: Change) -> None:
        """A change is about to be made."""
        kind, *fields = change
        made, gone = kind.removesuffix("_gone"), kind.endswith("_gone")
        if kind == "limits":
            self.touched.update((Holder(*fields[:2]), counted) for counted in COUNTED.values())
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
            self.count(known, -1)
        if not gone:
            self.count(_MADE[made](*fields), 1)


def topology_limit(setting: int, process_limit: int, copies: int) -> int:
    """The octets that the topology may take, in each of so many processes."""
    return setting or process_limit // (PROCESS_SHARE * copies)


def octets_of(record: Exchange | Queue | Binding) -> int:
    """What a record takes."""
    if isinstance(record, Binding):
        words: tuple[str, ...] = (record.vhost, record.source, record.destination, record.key)
        indexed = ARGUMENT * len(record.arguments)
    else:
        words, indexed = (record.vhost, record.name), 0
    return RECORD + indexed + sum(map(len, words)) + len(pack(dict(record.arguments)))


def holders(record: Exchange | Queue | Binding) -> list[Holder]:
    """Whose it is: its vhost's, and its maker's."""
    of_vhost = Holder("vhost", record.vhost)
    return [of_vhost] if record.maker is None else [of_vhost, Holder("user", record.maker)]


PLACE: dict[Scope, str] = {"vhost": "in", "user": "of"}
COUNTED: dict[type[Exchange | Queue | Binding], Counted] = {
    Exchange: Counted.EXCHANGES, Queue: Counted.QUEUES, Binding: Counted.BINDINGS,
}  # fmt: skip
_MADE: dict[str, Callable[..., Exchange | Queue | Binding]] = {
    "exchange": Exchange, "queue": Queue, "binding": Binding,
}  # fmt: skip


def check(record: Exchange | Queue | Binding, taken: Taken, topology: Topology, bounds: Bounds) -> None:
    """406 unless something new may be declared, with so much taken already."""
    _check_number(record, taken, topology, bounds.limits)
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


def _check_number(
    record: Exchange | Queue | Binding, taken: Taken, topology: Topology, defaults: LimitSettings
) -> None:
    """406 if its vhost or its maker may not have one more; RabbitMQ's words."""
    counted = COUNTED[type(record)]
    for holder in holders(record):
        limit = topology.limits.limit(holder, counted, defaults)
        if limit is not None and taken.numbers[holder, counted] >= limit:
            what = f"{_word(counted)} limit {PLACE[holder.scope]} {holder}"
            raise amqp_error(406, f"cannot declare {_named(record)}: {what} ({limit}) is reached")


def _named(record: Exchange | Queue | Binding) -> str:
    """As RabbitMQ says it."""
    return str(record) if isinstance(record, Binding) else f"{_word(COUNTED[type(record)])} '{record.name}'"


def _word(counted: Counted) -> str:
    return counted.name.lower().removesuffix("s")
