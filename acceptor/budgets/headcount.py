"""Numbers of connections and channels, of the node, a vhost, a user and an address, and their limits; and the limits of
new connections a second.

An acceptor counts its own. Where there is a limit, the number is shared with the other acceptors
(`penstock.memory.shared_counts`, `penstock.memory.shared_rates`), so that the limit holds for the node. A connection
counts from connection.open, once its user is known, until its socket is closed. A refused connection counts nowhere,
except for the rates if a limit of numbers refused it. Codes and texts are RabbitMQ's where it has the limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from acceptor.clients.addresses import address_of
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.memory.shared_counts import SharedCounts
from penstock.memory.shared_rates import Rate, SharedRates
from penstock.memory.shared_rows import row_name
from penstock.settings.limits import LimitSettings
from router.model.resource_limits import Counted, Holder, Scope

if TYPE_CHECKING:
    from acceptor.clients.connection_state import ConnectionState
    from router.model.topology import Topology

ADMINISTRATORS = 8
"""Connections beyond the node's limit that are kept for administrators."""

MOST_REMEMBERED = 256
"""Users and their addresses whose kinds are remembered."""
CONNECTION_RATE = "connection-rate"

Whose = Scope | Literal["node", "address"]


class Kind(NamedTuple):
    """A number that is counted: of connections or channels, of one vhost, user or address, or of the node."""

    counted: Counted
    whose: Whose
    name: str = ""

    @property
    def key(self) -> str:
        """Its name in memory shared with other acceptors."""
        return row_name(self.counted, self.whose, self.name)


OF_NODE = Kind(Counted.CONNECTIONS, "node")


class Headcount:
    """The counts of one acceptor. The process sets `shared` and `rates`; `clock` is the machine's monotonic one, in
    seconds. `refused` counts connections refused by a limit.
    """

    def __init__(self, topology: Topology, defaults: LimitSettings, clock: Callable[[], float]) -> None:
        self.shared = SharedCounts.of_process()
        self.rates = SharedRates.of_process()
        self.refused = 0
        self._clock = clock
        self._topology = topology
        self._defaults = defaults
        self._own: Counter[Kind] = Counter()
        self._shared: set[Kind] = set()
        self._connections: set[ConnectionState] = set()

    def open_connection(self, connection: ConnectionState, vhost: str) -> None:
        """Count a new connection. 530 if a limit is reached."""
        address = address_of(connection.client.host)
        try:
            self._come(address, connection.user)
            self._take(_kinds(address, vhost, connection.user), connection, vhost)
        except AMQPError:
            self.refused += 1
            raise
        self._connections.add(connection)

    def connection_is_gone(self, connection: ConnectionState) -> None:
        """Remove a closed connection from the counts."""
        if connection in self._connections:
            self._connections.remove(connection)
            for kind in _kinds(address_of(connection.client.host), connection.access.vhost, connection.user):
                self._give(kind, 1)

    def open_channel(self, connection: ConnectionState) -> None:
        """Count a new channel. 530 if a limit is reached."""
        self._take(_channels(connection.user), connection, connection.access.vhost)

    def channels_are_gone(self, connection: ConnectionState, number: int) -> None:
        """Remove closed channels of a connection from the counts."""
        for kind in _channels(connection.user) if number else ():
            self._give(kind, number)

    def limits_change(self, holder: Holder) -> None:
        """Share counts, where the changed limits of a vhost or a user require it."""
        for kind in [kind for kind in self._own if (kind.whose, kind.name) == holder]:
            if self._limit(kind) is not None or kind in self._shared:
                self._share(kind)

    def report(self) -> list[dict[str, Any]]:
        """Return this acceptor's counts (`acceptor.questions`)."""
        return [
            {"whose": kind.whose, "name": kind.name, "limit": kind.counted.value, "used": number}
            for kind, number in self._own.items()
        ]

    def _come(self, address: str, user: str) -> None:
        """Count one more for the rates, in connections a second. 530 if one is exceeded."""
        numbers = {"address": self._defaults.address_connection_rate}
        if not self._is_administrator(user):
            numbers["node"] = self._defaults.connection_rate
        rates = [
            Rate(row_name(CONNECTION_RATE, whose, address if whose == "address" else ""), number)
            for whose, number in numbers.items()
            if number >= 0
        ]
        lacking = self.rates.acquire(rates, self._clock()) if rates else None
        if lacking is not None:
            raise amqp_error(530, f"connection refused from {address}: {_words(lacking)}")

    def _take(self, kinds: tuple[Kind, ...], connection: ConnectionState, vhost: str) -> None:
        for number, kind in enumerate(kinds):
            limit = self._limit(kind)
            if limit is not None:
                self._shared.add(kind)
                if not self.shared.acquire(kind.key, self._own[kind], limit, self._kept_slots(kind, connection.user)):
                    for taken in kinds[:number]:
                        self._give(taken, 1)
                    raise _refusal(kind, limit, connection.user, vhost)
            self._own[kind] += 1

    def _give(self, kind: Kind, number: int) -> None:
        self._own[kind] -= number
        if kind in self._shared:
            self._share(kind)
        if not self._own[kind]:
            del self._own[kind]
            self._shared.discard(kind)

    def _share(self, kind: Kind) -> None:
        """Share a count from now on until it is zero, whatever becomes of its limit."""
        self._shared.add(kind)
        self.shared.put(kind.key, self._own[kind], self._limit(kind))

    def _kept_slots(self, kind: Kind, user: str) -> int:
        return ADMINISTRATORS if kind == OF_NODE and self._is_administrator(user) else 0

    def _is_administrator(self, user: str) -> bool:
        return self._topology.users.has_tag(user, "administrator")

    def _limit(self, kind: Kind) -> int | None:
        """Return the limit; None if there is none."""
        if kind.whose == "vhost" or kind.whose == "user":
            return self._topology.limits.limit(Holder(kind.whose, kind.name), kind.counted, self._defaults)
        name = kind.counted.name.lower() if kind.whose == "node" else "address_connections"
        number: int = getattr(self._defaults, name)
        return None if number < 0 else number


@lru_cache(MOST_REMEMBERED)
def _kinds(address: str, vhost: str, user: str) -> tuple[Kind, ...]:
    return (
        OF_NODE, Kind(Counted.CONNECTIONS, "address", address),
        Kind(Counted.CONNECTIONS, "vhost", vhost), Kind(Counted.CONNECTIONS, "user", user),
    )  # fmt: skip


@lru_cache(MOST_REMEMBERED)
def _channels(user: str) -> tuple[Kind, ...]:
    return Kind(Counted.CHANNELS, "node"), Kind(Counted.CHANNELS, "user", user)


def _words(rate: Rate) -> str:
    whose = "the node" if rate.name == row_name(CONNECTION_RATE, "node", "") else "an address"
    return f"connection rate limit of {whose} ({rate.number} a second) is reached"


def _refusal(kind: Kind, limit: int, user: str, vhost: str) -> AMQPError:
    match kind.counted, kind.whose:
        case Counted.CONNECTIONS, "node":
            text = f"connection refused: node connection limit ({limit}) is reached"
        case Counted.CONNECTIONS, "address":
            text = f"connection refused from {kind.name}: connection limit of an address ({limit}) is reached"
        case Counted.CONNECTIONS, "vhost":
            text = f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached"
        case Counted.CONNECTIONS, _:
            text = f"connection refused for user '{user}': user connection limit ({limit}) is reached"
        case _:
            where, limit_of = ("on the node", "") if kind.whose == "node" else (f"for user '{user}'", "user ")
            text = f"number of channels opened {where} has reached the maximum allowed {limit_of}limit of ({limit})"
    return amqp_error(530, text)
