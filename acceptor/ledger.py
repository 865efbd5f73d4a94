"""Who was held, by what, for how long: the accounts of one acceptor, and the incidents that they are entered in.

An account is of a connection, user, vhost, exchange or queue (what is no queue goes by the kind of thing it is). There
are at most `MOST` of each; then the smaller half is entered under "others". The account of a connection ends with it.

An incident begins when the first session is held by something and ends when none is any more. Those of less than
`INCIDENT_SECONDS` are summed up. Times are seconds of the caller's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeGuard

from acceptor.gate import Gate
from acceptor.inlet import Inlet
from acceptor.move_gate import MoveGate
from acceptor.pools import Pool, itself
from acceptor.pressure import VhostGate
from acceptor.rates import RateGate
from acceptor.shard_link import ShardLink
from acceptor.stops import StopGate
from penstock.flow.flow_events import INCIDENT_SECONDS
from penstock.flow.short_stops import VICTIMS, ShortStops

if TYPE_CHECKING:
    from acceptor.channel_state import ChannelState
    from acceptor.connection_state import ConnectionState

MOST = 4096
RECORDS = 1024
KEPT_MOST = 256
"""So many accounts of a kind are kept for the next life of the acceptor."""
OPEN_MOST = 64
"""Of so many incidents it is noted once a second whom they hold, of each the first `VICTIMS`."""
VICTIMS_MOST = 64
"""So many connections are named in an incident, the first that it held."""
KINDS = ("connection", "user", "vhost", "exchange", "queue")
OTHERS = "others"
WORDS = ((Pool, "limit"), (Inlet, "queue"), (ShardLink, "shard"), (StopGate, "stop"), (VhostGate, "vhost"),
         (RateGate, "rate"), (MoveGate, "rebalance"))  # fmt: skip

Key = tuple[str, str]
"""Vhost ("" for what is in none) and name."""


class Held:
    """Sessions that something holds: `holding` so many now, which it began to at times that add up to `began_holding`;
    `held_seconds` are of those that it has let go.
    """

    __slots__ = ("began_holding", "held_seconds", "holding")

    def __init__(self) -> None:
        self.holding = 0
        self.held_seconds = 0.0
        self.began_holding = 0.0

    def holds(self, since: float) -> None:
        """One session more."""
        self.holding += 1
        self.began_holding += since

    def lets_go(self, since: float, now: float) -> None:
        self.holding -= 1
        self.began_holding -= since
        self.held_seconds += now - since

    def seconds(self, now: float) -> float:
        """For how long it has held them, all of them together."""
        return self.held_seconds + self.holding * now - self.began_holding


class Victim(Held):
    """A connection that an incident holds, or held, since `since` at first."""

    __slots__ = ("connection", "since")

    def __init__(self, connection: ConnectionState, since: float) -> None:
        super().__init__()
        self.connection = {"connection": connection.id, "client": connection.client, "user": connection.user,
                           "peer": connection.peer}  # fmt: skip
        self.since = since

    def told(self, now: float) -> dict[str, Any]:
        return {**self.connection, "since": self.since, "held_seconds": round(self.seconds(now), 3)}


class Incident(Held):
    """Something that holds sessions. `victims` are the first connections, by id."""

    __slots__ = ("actions", "begun", "gate", "reason", "sessions", "victims")

    def __init__(self, gate: Gate, now: float) -> None:
        super().__init__()
        self.gate = gate
        self.reason = str(gate)
        self.begun = now
        self.sessions = 0
        self.victims: dict[str, Victim] = {}
        self.actions: Counter[str] = Counter()

    def begins(self, connection: ConnectionState, now: float) -> None:
        """It holds one session more."""
        self.sessions += 1
        self.holds(now)
        if connection.id not in self.victims and len(self.victims) < VICTIMS_MOST:
            self.victims[connection.id] = Victim(connection, now)
        if connection.id in self.victims:
            self.victims[connection.id].holds(now)

    def ends(self, connection: ConnectionState, since: float, now: float) -> None:
        """It does not hold a session any more that it held since then."""
        self.lets_go(since, now)
        if connection.id in self.victims:
            self.victims[connection.id].lets_go(since, now)


class Ledger:
    """`records` are incidents that are over, `short_stops` those that were short, for the shell to write down; of the
    incidents the oldest go if it does not.
    """

    def __init__(self) -> None:
        self.accounts: dict[str, dict[Key, list[float]]] = {kind: {} for kind in KINDS}
        self.open: dict[Gate, Incident] = {}
        self.since: dict[ChannelState, tuple[Gate, float]] = {}
        self.records: list[dict[str, Any]] = []
        self.short_stops = ShortStops()

    def begin(self, channel: ChannelState, gate: Gate, now: float) -> None:
        """A channel is held; by something else than before, if it was already."""
        self.end(channel, now)
        gate = itself(gate)
        self.since[channel] = gate, now
        incident = self.open.get(gate)
        if incident is None:
            incident = self.open[gate] = Incident(gate, now)
        incident.begins(channel.connection, now)

    def acted(self, channel: ChannelState, action: str) -> None:
        """Something was done to it for being held."""
        if channel in self.since:
            self.open[self.since[channel][0]].actions[action] += 1

    def end(self, channel: ChannelState, now: float) -> None:
        """It is held no more, or by something else from now on."""
        entry = self.since.pop(channel, None)
        if entry is None:
            return
        gate, since = entry
        for kind, key in _keys(channel, gate):
            self.enter(kind, key, now - since)
        incident = self.open[gate]
        incident.ends(channel.connection, since, now)
        if not incident.holding:
            del self.open[gate]
            if now - incident.begun >= INCIDENT_SECONDS:
                self.records = [*self.records[-RECORDS + 1 :], _record(incident, now)]
            else:
                self.short_stops.add(_record(incident, now, VICTIMS), now)

    def open_records(self, now: float) -> list[dict[str, Any]]:
        """The incidents that are not over, as they are now; of more than `OPEN_MOST` the oldest."""
        lasting = [incident for incident in self.open.values() if now - incident.begun >= INCIDENT_SECONDS]
        oldest = nsmallest(OPEN_MOST, lasting, key=lambda incident: incident.begun)
        return [_record(incident, now, VICTIMS) for incident in oldest]

    def forget(self, connection: str) -> None:
        """A connection is gone: what it was held for stays with its user, vhost, exchange and queue."""
        self.accounts["connection"].pop(("", connection), None)

    def told(self, now: float) -> list[dict[str, Any]]:
        """All accounts, with what runs at the moment: [{by, vhost, name, seconds, stops}]."""
        found = {
            (kind, *key): list(entry) for kind, accounts in self.accounts.items() for key, entry in accounts.items()
        }
        for channel, (gate, since) in self.since.items():
            for kind, key in _keys(channel, gate):
                entry = found.setdefault((kind, *key), [0.0, 0])
                entry[0] += now - since
                entry[1] += 1
        return [
            {"by": kind, "vhost": vhost, "name": name, "seconds": round(seconds, 3), "stops": int(stops)}
            for (kind, vhost, name), (seconds, stops) in found.items()
        ]

    def kept(self, now: float) -> list[dict[str, Any]]:
        """The largest `KEPT_MOST` accounts of each kind, but not of connections, the others summed up; as `told`."""
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS if kind != "connection"}
        for each in self.told(now):
            if each["by"] in found:
                found[each["by"]].append(each)
        for kind, accounts in found.items():
            accounts.sort(key=lambda account: -account["seconds"])
            if rest := accounts[KEPT_MOST:]:
                seconds, stops = (sum(account[what] for account in rest) for what in ("seconds", "stops"))
                accounts[KEPT_MOST:] = [
                    {"by": kind, "vhost": "", "name": OTHERS, "seconds": round(seconds, 3), "stops": stops}
                ]
        return [account for accounts in found.values() for account in accounts]

    def enter(self, kind: str, key: Key, seconds: float, stops: int = 1) -> None:
        """LookupError if there is no such kind."""
        accounts = self.accounts[kind]
        if len(accounts) >= MOST and key not in accounts:
            self._fold(accounts)
        entry = accounts.setdefault(key, [0.0, 0])
        entry[0] += seconds
        entry[1] += stops

    def _fold(self, accounts: dict[Key, list[float]]) -> None:
        others = accounts.pop(("", OTHERS), [0.0, 0])
        for key in sorted(accounts, key=lambda key: accounts[key][0])[: MOST // 2]:
            seconds, stops = accounts.pop(key)
            others[0] += seconds
            others[1] += stops
        accounts["", OTHERS] = others


def _keys(channel: ChannelState, gate: Gate) -> Iterable[tuple[str, Key]]:
    connection, vhost = channel.connection, channel.vhost
    yield "connection", ("", connection.id)
    yield "user", ("", connection.user)
    yield "vhost", ("", vhost)
    if channel.route is not None:
        yield "exchange", (vhost, channel.route.exchange)
    yield "queue", (gate.vhost, gate.name) if is_queue(gate) else (vhost, f"({kind_of(gate)})")


def kind_of(gate: Gate) -> str:
    """What sort of thing holds, in one word."""
    return next(word for kind, word in WORDS if isinstance(gate, kind))


def is_queue(gate: Gate) -> TypeGuard[Inlet]:
    """Whether it is a queue that holds, not a limit over several."""
    return isinstance(gate, Inlet) and not isinstance(gate, Pool)


def _of(gate: Gate) -> str:
    """What is no queue and holds: the same words whatever the numbers."""
    if isinstance(gate, Pool):
        return str(gate.limit)
    if isinstance(gate, ShardLink):
        return f"shard {gate.index}"
    if isinstance(gate, VhostGate):
        return f"vhost '{gate.vhost}'"
    return str(gate.queue) if isinstance(gate, MoveGate) else str(gate)


def _record(incident: Incident, now: float, victims: int = VICTIMS_MOST) -> dict[str, Any]:
    gate = incident.gate
    return {
        "kind": kind_of(gate),
        "vhost": gate.vhost if is_queue(gate) else None,
        "queue": gate.name if is_queue(gate) else None,
        "of": None if is_queue(gate) else _of(gate),
        "reason": incident.reason,
        "begun": incident.begun,
        "ended": now,
        "sessions": incident.sessions,
        "held_seconds": round(incident.seconds(now), 3),
        "victims": [victim.told(now) for victim in islice(incident.victims.values(), victims)],
        "actions": dict(incident.actions),
    }
