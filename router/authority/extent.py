"""The size of the topology and its limits: each process that routes or holds queues has a copy in memory.

The size of a queue, an exchange or a binding is that of its names, routing key and arguments, plus `RECORD`, plus
`ARGUMENT` for each argument of a binding. It counts towards the total and towards the share of the user who made it, so
that no user takes all the room. Declarations made before a limit was lowered stay; new ones are refused until there is
room.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from penstock.amqp.errors import amqp_error
from penstock.bus import pack
from penstock.settings.limits import LimitSettings
from router.model.record_kind import Change
from router.model.records import Binding, Exchange, Queue
from router.model.resource_limits import Counted, Holder, Scope
from router.model.topology import Topology

RECORD = 3 * 1024
"""The approximate bytes that a queue, an exchange or a binding takes beside its names and arguments."""

ARGUMENT = 512
"""The bytes that each argument of a binding takes beside itself, as a headers exchange may index it."""

PROCESS_SHARE = 4
"""Without a setting, all copies together may take `memory.process_limit` divided by this."""


class Bounds(NamedTuple):
    """The bytes that the arguments of one declaration may have, and that all declarations (0: no limit) and those of
    one user (0: no further limit) may take; `limits` are the default numbers for a vhost and a user.
    """

    arguments: int = 16 * 1024
    topology: int = 0
    of_user: int = 0
    limits: LimitSettings = LimitSettings()


class Usage:
    """The bytes that the topology takes: `nbytes` in all, `made` by maker (None: by no user). `numbers` counts records
    by vhost and by user; `touched` has the numbers that have changed, or whose limits have.
    """

    def __init__(self, topology: Topology) -> None:
        self.made: Counter[str | None] = Counter()
        self.nbytes = 0
        self.numbers: Counter[tuple[Holder, Counted]] = Counter()
        self.touched: set[tuple[Holder, Counted]] = set()
        for record in topology.declarations():
            self.count(record, 1)

    def count(self, record: Exchange | Queue | Binding, number: int) -> None:
        """Count a record that is added (1) or removed (-1)."""
        nbytes, maker = number * bytes_of(record), record.maker
        self.nbytes += nbytes
        self.made[maker] += nbytes
        if not self.made[maker]:
            del self.made[maker]
        for holder in holders(record):
            key = holder, COUNTED[type(record)]
            self.touched.add(key)
            self.numbers[key] += number
            if not self.numbers[key]:
                del self.numbers[key]

    def register(self, topology: Topology, change: Change) -> None:
        """Count a change that is about to be applied to the topology."""
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
    """Return the bytes that the topology may take in each of the processes that have one of the `copies`."""
    return setting or process_limit // (PROCESS_SHARE * copies)


def bytes_of(record: Exchange | Queue | Binding) -> int:
    """Return the bytes that a record takes."""
    if isinstance(record, Binding):
        words: tuple[str, ...] = (record.vhost, record.source, record.destination, record.key)
        indexed = ARGUMENT * len(record.arguments)
    else:
        words, indexed = (record.vhost, record.name), 0
    return RECORD + indexed + sum(map(len, words)) + len(pack(dict(record.arguments)))


def holders(record: Exchange | Queue | Binding) -> list[Holder]:
    """Return the holders that a record counts for: its vhost, and its maker if it has one."""
    of_vhost = Holder("vhost", record.vhost)
    return [of_vhost] if record.maker is None else [of_vhost, Holder("user", record.maker)]


PLACE: dict[Scope, str] = {"vhost": "in", "user": "of"}
COUNTED: dict[type[Exchange | Queue | Binding], Counted] = {
    Exchange: Counted.EXCHANGES, Queue: Counted.QUEUES, Binding: Counted.BINDINGS,
}  # fmt: skip
_MADE = {record_type.record_kind.name: record_type for record_type in COUNTED}


def check(record: Exchange | Queue | Binding, usage: Usage, topology: Topology, bounds: Bounds) -> None:
    """406 unless a new record is within the limits, in addition to the records in `usage`."""
    _check_number(record, usage, topology, bounds.limits)
    nbytes = len(pack(dict(record.arguments)))
    if nbytes > bounds.arguments:
        raise amqp_error(
            406, f"{record} has {nbytes} bytes of arguments, more than {bounds.arguments} (amqp.max_arguments_bytes)"
        )
    more = bytes_of(record)
    if bounds.topology and usage.nbytes + more > bounds.topology:
        raise amqp_error(
            406,
            f"cannot declare {record}: queues, exchanges and bindings of the node take {usage.nbytes} bytes, of "
            f"{bounds.topology} (max_topology_bytes)",
        )
    own = usage.made[record.maker]
    if bounds.of_user and record.maker is not None and own + more > bounds.of_user:
        raise amqp_error(
            406,
            f"cannot declare {record}: queues, exchanges and bindings of user '{record.maker}' take {own} bytes, of "
            f"{bounds.of_user} (user_topology_percent)",
        )


def _check_number(
    record: Exchange | Queue | Binding, usage: Usage, topology: Topology, defaults: LimitSettings
) -> None:
    """406, in RabbitMQ's words, if the record's vhost or maker may not have one more."""
    counted = COUNTED[type(record)]
    for holder in holders(record):
        limit = topology.limits.limit(holder, counted, defaults)
        if limit is not None and usage.numbers[holder, counted] >= limit:
            what = f"{_word(counted)} limit {PLACE[holder.scope]} {holder}"
            raise amqp_error(406, f"cannot declare {_named(record)}: {what} ({limit}) is reached")


def _named(record: Exchange | Queue | Binding) -> str:
    """Return the name of a record in RabbitMQ's form."""
    return str(record) if isinstance(record, Binding) else f"{_word(COUNTED[type(record)])} '{record.name}'"


def _word(counted: Counted) -> str:
    return counted.name.lower().removesuffix("s")
