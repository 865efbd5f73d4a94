"""Events and incidents of a node, joined from the records that shards keep of queues and acceptors of held channels."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from penstock.files.record_file import read_records
from penstock.flow.short_stops import SUMMED_SECONDS, Key, key_of, merged

Facts = dict[str, Any]

SLACK_SECONDS = 2.0
"""Acceptors and shards see the same stop at slightly different times."""
LATE_SECONDS = 0.1
"""A channel held by the stop before may seem to be held by the next one for this long."""


def incidents(data: Path) -> list[Facts]:
    """Return all incidents on record, the last to end first. The node need not run.

    Each has kind, vhost, queue, of (its subject if not a queue), cause, begun and ended (seconds since 1970), since_us
    (for a queue: when it began by the node's clock), stops, seconds, longest (seconds), peak_count, peak_bytes,
    overshoot_count, overshoot_bytes (None if not of a queue), holds, held_seconds, victims (each with since and
    held_seconds) and actions. Short stops of one subject with less than a minute between them are one incident: `stops`
    is their number, `seconds` their total time. Any other incident has 1 as `stops`.
    """
    return sorted(_join(_stops(data, "shard"), _stops(data, "acceptor")), key=lambda incident: -incident["ended"])


def events(data: Path) -> list[Facts]:
    """Return the flow events of queues (`shard.flow.events`), the latest first; `at` is in seconds since 1970."""
    found = [each for records in _read(data, "events", "*") for each in records]
    return sorted(found, key=lambda event: -event["at"])


def _read(data: Path, what: str, role: str) -> Iterable[Iterable[Facts]]:
    """Yield the records of each process of a role."""
    return (read_records(path) for path in sorted((data / what).glob(f"{role}.*.jsonl")))


def _stops(data: Path, role: str) -> Iterator[Facts]:
    """Yield the long stops, then the short ones, as the processes of a role recorded them."""
    for records in _read(data, "incidents", role):
        yield from records
    for sums in _read(data, "short_stops", role):
        yield from _merge_adjacent(sums)


def _merge_adjacent(sums: Iterable[Facts]) -> list[Facts]:
    """Merge the sums of short stops that follow one another."""
    last: dict[Key, int] = {}
    found: list[Facts] = []
    for each in sums:
        at = last.get(key_of(each))
        if at is not None and each["begun"] <= found[at]["ended"] + SUMMED_SECONDS:
            found[at] = merged(found[at], each)
        else:
            last[key_of(each)] = len(found)
            found.append(each)
    return found


def _join(stops: Iterable[Facts], held: Iterable[Facts]) -> list[Facts]:
    """Join stops with the channels held: each is entered in the stop that fits its time best, and in all others that it
    outlasted. A hold that no shard has on record becomes an incident of its own.
    """
    joined = [_empty_incident(stop) | stop for stop in stops]
    ahead: dict[Key, deque[Facts]] = {}
    for incident in sorted(joined, key=lambda one: one["begun"]):
        ahead.setdefault(key_of(incident)[1:], deque()).append(incident)
    near: dict[Key, list[Facts]] = {}
    for each in sorted(held, key=lambda one: one["begun"]):
        place = key_of(each)[1:]
        coming = ahead.get(place, deque())
        there = [one for one in near.get(place, ()) if each["begun"] <= one["ended"] + SLACK_SECONDS]
        while coming and coming[0]["begun"] - SLACK_SECONDS <= each["ended"]:
            there.append(coming.popleft())
        same = [one for one in there if _overlap(one, each) > -SLACK_SECONDS]
        if not same:
            same = [_empty_incident(each) | {"cause": each["reason"]}]
            joined += same
            there += same
        near[place] = there
        _enter(each, same)
    return joined


def _enter(held: Facts, same: list[Facts]) -> None:
    """Enter held channels in the incident that fits best, and with shares of their time in others that they outlasted.

    Actions are entered in the former only: their times are not on record.
    """
    best = max(same, key=lambda one: _overlap(one, held) / _span(one, held))
    shares = {id(best): 1.0}
    if held.get("stops", 1) == best["stops"] == 1:
        others = [one for one in same if one is not best and one["stops"] == 1 and _overlap(one, held) > LATE_SECONDS]
        times = {id(one): max(_overlap(one, held), 0.0) for one in (best, *others)}
        if others:
            shares = {one: time / sum(times.values()) for one, time in times.items()}
    for one in same:
        if id(one) in shares:
            _add_hold(one, held, shares[id(one)], held["actions"] if one is best else {})


def _empty_incident(record: Facts) -> Facts:
    seconds = round(record["ended"] - record["begun"], 3)
    return {
        **{name: record.get(name) for name in ("kind", "vhost", "queue", "of", "cause")},
        "begun": record["begun"],
        "ended": record["ended"],
        "stops": record.get("stops", 1),
        "seconds": record.get("seconds", seconds),
        "longest": record.get("longest", seconds),
        **dict.fromkeys(("peak_count", "peak_bytes", "overshoot_count", "overshoot_bytes")),
        "holds": 0,
        "held_seconds": 0.0,
        "victims": [],
        "actions": {},
    }


def _overlap(one: Facts, other: Facts) -> float:
    """Return the seconds for which two records overlap; below 0, the gap between them."""
    return float(min(one["ended"], other["ended"]) - max(one["begun"], other["begun"]))


def _span(one: Facts, other: Facts) -> float:
    return max(float(max(one["ended"], other["ended"]) - min(one["begun"], other["begun"])), 1e-6)


def _victim(victim: Facts, incident: Facts, share: float) -> Facts:
    """Return a victim's entry in one of the incidents through which it was held."""
    if share == 1.0:
        return victim
    since = max(victim["since"], incident["begun"])
    return {**victim, "since": since, "held_seconds": round(share * victim["held_seconds"], 3)}


def _add_hold(incident: Facts, held: Facts, share: float, actions: Facts) -> None:
    incident["holds"] += held["holds"]
    incident["held_seconds"] = round(incident["held_seconds"] + share * held["held_seconds"], 3)
    incident["victims"] += (_victim(victim, incident, share) for victim in held["victims"])
    for action, count in actions.items():
        incident["actions"][action] = incident["actions"].get(action, 0) + count
