"""Stops too short to be incidents, summed up: about each minute, one record for each queue or other cause of stops.

A record is that of an incident (`of` names its subject if it is no queue) with

    stops     number of stops                begun, ended   of the first and of the last one
    seconds   duration of all together       cause, reason  of the longest one
    longest   seconds                        peaks          the highest

Times are seconds of the caller's clock.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

Record = dict[str, Any]
Key = tuple[str | None, ...]

SUMMED_SECONDS = 60.0
MOST = 64
"""Maximum number of separate records in one minute."""
VICTIMS = 16
OTHERS: Record = {"kind": "others", "vhost": None, "queue": None, "of": f"more than {MOST} within a minute"}
"""The subject of the record that sums up all the rest."""

_SUMS = ("stops", "seconds", "holds", "held_seconds")
_MOST = ("ended", "peak_count", "peak_bytes", "overshoot_count", "overshoot_bytes", "epoch")
_OF_LONGEST = ("longest", "cause", "reason")


class ShortStops:
    """The sums of one process that are not written yet."""

    def __init__(self) -> None:
        self.sums: dict[Key, Record] = {}
        self.since = 0.0

    def add(self, incident: Record, now: float) -> None:
        """Add an ended stop that was too short for an incident."""
        if not self.sums:
            self.since = now
        seconds = incident["ended"] - incident["begun"]
        stop = {**incident, "stops": 1, "seconds": seconds, "longest": seconds}
        key = key_of(stop)
        if key not in self.sums and len(self.sums) >= MOST:
            stop |= OTHERS
            key = key_of(stop)
        self.sums[key] = merged(self.sums[key], stop) if key in self.sums else stop

    def take_due(self, now: float) -> list[Record]:
        """Remove and return the sums once `SUMMED_SECONDS` have passed."""
        return self.take_all() if self.sums and now >= self.since + SUMMED_SECONDS else []

    def take_all(self) -> list[Record]:
        """Remove and return all sums."""
        found, self.sums = list(self.sums.values()), {}
        return found


def key_of(record: Record) -> Key:
    """The identity of a record's subject."""
    return record["kind"], record["vhost"], record["queue"], record.get("of")


def merged(one: Record, other: Record) -> Record:
    """The sum of two records of the same subject."""
    longest = max(one, other, key=lambda each: each["longest"])
    both = {**one, **{name: longest[name] for name in _OF_LONGEST if name in longest}}
    both["begun"] = min(one["begun"], other["begun"])
    both |= {name: round(one[name] + other[name], 3) for name in _SUMS if name in one}
    both |= {name: max(one[name], other[name]) for name in _MOST if one.get(name) is not None}
    if "victims" in one:
        victims: dict[str, Record] = {}
        for each in [*one["victims"], *other["victims"]]:
            known = victims.setdefault(each["connection"], {**each, "held_seconds": 0.0})
            known["held_seconds"] = round(known["held_seconds"] + each["held_seconds"], 3)
            known["since"] = min(known["since"], each["since"])
        both["victims"] = list(victims.values())[:VICTIMS]
        both["actions"] = dict(Counter(one["actions"]) + Counter(other["actions"]))
    return both
