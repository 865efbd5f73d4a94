"""The ledger of holds at one acceptor: accounts of how long channels were held, and the incidents that held them.

An account is of a connection, user, vhost, exchange or queue (any other gate is entered by its kind). There are at most
`MOST` of each kind; then the smaller half is entered under "others". The account of a connection ends with it.

An incident begins when a gate holds its first channel and ends when it holds none. Those shorter than
`INCIDENT_SECONDS` are summed up. Times are seconds of the caller's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Any

from acceptor.gates.cause import HoldCause
from acceptor.gates.gate import Gate
from acceptor.gates.pools import itself
from acceptor.holding.observer import HoldObserver
from penstock.flow.flow_events import INCIDENT_SECONDS
from penstock.flow.short_stops import VICTIMS, ShortStops
from penstock.memory.records import HELD_KINDS

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.hold import Hold

MOST = 4096
RECORDS = 1024
KEPT_MOST = 256
"""So many accounts of a kind are kept for the next incarnation of the acceptor."""
OPEN_MOST = 64
"""So many open incidents are recorded each second, each with the first `VICTIMS` connections."""
VICTIMS_MOST = 64
"""So many connections are named in an incident: the first that it held."""
KINDS = ("connection", "user", "vhost", "exchange", "queue")
OTHERS = "others"

Key = tuple[str, str]
"""Vhost ("" for a connection, user or vhost) and name."""


class Held:
    """The time that channels are held: `holding` channels at present, whose beginnings add up to `began_holding`, and
    `held_seconds` of channels that are held no longer.
    """

    __slots__ = ("began_holding", "held_seconds", "holding")

    def __init__(self) -> None:
        self.holding = 0
        self.held_seconds = 0.0
        self.began_holding = 0.0

    def holds(self, since: float) -> None:
        """Hold one channel more."""
        self.holding += 1
        self.began_holding += since

    def lets_go(self, since: float, now: float) -> None:
        """Hold one channel less, which was held since then."""
        self.holding -= 1
        self.began_holding -= since
        self.held_seconds += now - since

    def seconds(self, now: float) -> float:
        """Return how long channels were held, in seconds, all of them added up."""
        return self.held_seconds + self.holding * now - self.began_holding


class Victim(Held):
    """A connection that an incident holds or held, first at `since`."""

    __slots__ = ("connection", "since")

    def __init__(self, connection: ConnectionState, since: float) -> None:
        super().__init__()
        self.connection = {"connection": connection.id, "client": connection.client.name, "user": connection.user,
                           "peer": connection.client.peer}  # fmt: skip
        self.since = since

    def report(self, now: float) -> dict[str, Any]:
        """Return the victim as an incident's record has it."""
        return {**self.connection, "since": self.since, "held_seconds": round(self.seconds(now), 3)}


class Incident(Held):
    """A period in which a gate holds channels: `hold_count` holds. `victims` are the first connections, by id."""

    __slots__ = ("actions", "begun", "cause", "hold_count", "victims")

    def __init__(self, cause: HoldCause, now: float) -> None:
        super().__init__()
        self.cause = cause
        self.begun = now
        self.hold_count = 0
        self.victims: dict[str, Victim] = {}
        self.actions: Counter[str] = Counter()

    def begins(self, connection: ConnectionState, now: float) -> None:
        """The gate holds one channel more, of this connection."""
        self.hold_count += 1
        self.holds(now)
        if connection.id not in self.victims and len(self.victims) < VICTIMS_MOST:
            self.victims[connection.id] = Victim(connection, now)
        if connection.id in self.victims:
            self.victims[connection.id].holds(now)

    def ends(self, connection: ConnectionState, since: float, now: float) -> None:
        """The gate does not hold a channel any more that it held since then."""
        self.lets_go(since, now)
        if connection.id in self.victims:
            self.victims[connection.id].lets_go(since, now)


class Ledger(HoldObserver):
    """The accounts and incidents of one acceptor. `records` are incidents that are over, `short_stops` the short ones,
    for the shell to write down; if it does not, the oldest records are dropped.
    """

    def __init__(self) -> None:
        self.accounts: dict[str, dict[Key, list[float]]] = {kind: {} for kind in KINDS}
        self.open: dict[Gate, Incident] = {}
        self.since: dict[ChannelState, tuple[Gate, float]] = {}
        self.by_kind = {kind: Held() for kind in HELD_KINDS}
        self.records: list[dict[str, Any]] = []
        self.short_stops = ShortStops()

    def held(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """A gate begins to hold a channel; another one that held it ceases to."""
        self.end(channel, now)
        gate = itself(hold.gate)
        self.since[channel] = gate, now
        incident = self.open.get(gate)
        if incident is None:
            incident = self.open[gate] = Incident(hold.cause, now)
        incident.begins(channel.connection, now)
        self.by_kind[incident.cause.kind].holds(now)

    def released(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """Nothing holds a channel any more."""
        self.end(channel, now)

    def acted(self, channel: ChannelState, action: str) -> None:
        """Count an action on a held channel in its incident; nothing if the channel is free."""
        if channel in self.since:
            self.open[self.since[channel][0]].actions[action] += 1

    def end(self, channel: ChannelState, now: float) -> None:
        """A channel's gate ceases to hold it: enter the time, and end the incident if it was the last channel."""
        entry = self.since.pop(channel, None)
        if entry is None:
            return
        gate, since = entry
        incident = self.open[gate]
        for kind, key in _keys(channel, incident.cause):
            self.enter(kind, key, now - since)
        incident.ends(channel.connection, since, now)
        self.by_kind[incident.cause.kind].lets_go(since, now)
        if not incident.holding:
            del self.open[gate]
            if now - incident.begun >= INCIDENT_SECONDS:
                self.records = [*self.records[-RECORDS + 1 :], _record(incident, now)]
            else:
                self.short_stops.add(_record(incident, now, VICTIMS), now)

    def open_records(self, now: float) -> list[dict[str, Any]]:
        """Return records of the lasting incidents that are not over, of at most the `OPEN_MOST` oldest."""
        lasting = [incident for incident in self.open.values() if now - incident.begun >= INCIDENT_SECONDS]
        oldest = nsmallest(OPEN_MOST, lasting, key=lambda incident: incident.begun)
        return [_record(incident, now, VICTIMS) for incident in oldest]

    def forget(self, connection: str) -> None:
        """Remove the account of a connection that is gone; those of its user, vhost, exchange and queue stay."""
        self.accounts["connection"].pop(("", connection), None)

    def report(self, now: float) -> list[dict[str, Any]]:
        """Return all accounts, present holds included: [{by, vhost, name, seconds, stops}]."""
        found = {
            (kind, *key): list(entry) for kind, accounts in self.accounts.items() for key, entry in accounts.items()
        }
        for channel, (gate, since) in self.since.items():
            for kind, key in _keys(channel, self.open[gate].cause):
                entry = found.setdefault((kind, *key), [0.0, 0])
                entry[0] += now - since
                entry[1] += 1
        return [
            {"by": kind, "vhost": vhost, "name": name, "seconds": round(seconds, 3), "stops": int(stops)}
            for (kind, vhost, name), (seconds, stops) in found.items()
        ]

    def held_us(self, now: float) -> list[int]:
        """Return how long channels were held for each of `HELD_KINDS`, all of them added up, in microseconds."""
        return [max(int(self.by_kind[kind].seconds(now) * 1e6), 0) for kind in HELD_KINDS]

    def kept(self, now: float) -> list[dict[str, Any]]:
        """Return the largest `KEPT_MOST` accounts of each kind but connections as `report` does, the rest summed up."""
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS if kind != "connection"}
        for each in self.report(now):
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
        """Add seconds and stops to an account. LookupError if there is no such kind."""
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


def _keys(channel: ChannelState, cause: HoldCause) -> Iterable[tuple[str, Key]]:
    connection, vhost = channel.connection, channel.access.vhost
    yield "connection", ("", connection.id)
    yield "user", ("", connection.user)
    yield "vhost", ("", vhost)
    if channel.route is not None:
        yield "exchange", (vhost, channel.route.exchange)
    yield "queue", (cause.vhost, cause.queue) if cause.kind == "queue" else (vhost, f"({cause.kind})")


def _record(incident: Incident, now: float, victims: int = VICTIMS_MOST) -> dict[str, Any]:
    cause = incident.cause
    is_queue = cause.kind == "queue"
    return {
        "kind": cause.kind,
        "vhost": cause.vhost if is_queue else None,
        "queue": cause.queue if is_queue else None,
        "of": None if is_queue else cause.subject,
        "reason": cause.text,
        "begun": incident.begun,
        "ended": now,
        "holds": incident.hold_count,
        "held_seconds": round(incident.seconds(now), 3),
        "victims": [victim.report(now) for victim in islice(incident.victims.values(), victims)],
        "actions": dict(incident.actions),
    }
