"""Where telemetry lies: hours of the live tier (JSON lines) and of the history (Parquet). Names only, no file access.

    <root>/<table>/v=1/dt=2026-11-20/hour=13/<writer's file>.jsonl.zst
    <root>/history/<table>/v=1/dt=2026-11-20/hour=13/part-<run>-<number>.parquet, _manifest-000001.json

The *manifest* of an hour in the history names the parts of the hour, and the live files that are in them. Other parts
do not count. A live file that the manifest does not name came late, and is read beside the history until the hour is
compacted again. Each compaction of an hour writes a manifest with the next number (`pipeline.manifests`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from penstock.telemetry.schema import VERSION

MANIFEST = re.compile(r"_manifest-(\d{6,})\.json")
MANIFEST_0 = "_SUCCESS"
"""The name of an hour's only manifest in earlier releases: its number is 0."""
PART = re.compile(r"part-.*\.parquet")
LIVE = re.compile(r"[^._].*\.jsonl\.zst")
HOUR_PATH = re.compile(r"/dt=(\d{4}-\d\d-\d\d)/hour=(\d{1,2})(?:/|$)")
HOUR_US = 3_600_000_000


@dataclass(frozen=True, slots=True, order=True)
class Hour:
    """An hour of a day, UTC: `dt` such as 2026-11-20."""

    dt: str
    hour: int

    @classmethod
    def of(cls, ts: int) -> Self:
        """Return the hour of a time in µs since 1970."""
        at = datetime.fromtimestamp(ts // 1_000_000, UTC)
        return cls(at.strftime("%Y-%m-%d"), at.hour)

    @property
    def begins(self) -> int:
        """Its start in µs since 1970."""
        day = datetime.strptime(self.dt, "%Y-%m-%d").replace(tzinfo=UTC)
        return int((day + timedelta(hours=self.hour)).timestamp()) * 1_000_000

    @property
    def ends(self) -> int:
        """Its end in µs since 1970, exclusive."""
        return self.begins + HOUR_US

    @property
    def path(self) -> str:
        """Its directories below a table's."""
        return f"dt={self.dt}/hour={self.hour}"

    def __str__(self) -> str:
        return f"{self.dt} {self.hour:02}:00"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of an hour of the history: names of its parts, names of the live files in them, and counts."""

    parts: tuple[str, ...]
    sources: tuple[str, ...]
    rows: int
    duplicates: int
    corrupt: int
    unreadable: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Serialize the manifest."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self | None:
        """Parse a manifest; None if it is incomplete."""
        try:
            facts = json.loads(text)
            parts, sources, unreadable = (tuple(map(str, facts[name])) for name in ("parts", "sources", "unreadable"))
            rows, duplicates, corrupt = (int(facts[name]) for name in ("rows", "duplicates", "corrupt"))
            return cls(parts, sources, rows, duplicates, corrupt, unreadable)
        except (ValueError, KeyError, TypeError):
            return None


NOTHING = Manifest((), (), 0, 0, 0)
"""The manifest of an hour without a history."""


def live_base(root: str, table: str) -> str:
    """Return the directory of a table in the live tier."""
    return f"{root.rstrip('/')}/{table}/v={VERSION}"


def history_base(root: str, table: str) -> str:
    """Return the directory of a table in the history."""
    return f"{root.rstrip('/')}/history/{table}/v={VERSION}"


def hour_of(path: str) -> Hour | None:
    """Return the hour of a directory or file by its path; None if the path names none."""
    found = HOUR_PATH.search(path)
    if found is None or int(found[2]) > 23:
        return None
    return Hour(found[1], int(found[2]))


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return path.rstrip("/").rpartition("/")[2]


def manifest_name(number: int) -> str:
    """Return the name of a manifest by its number, from 1."""
    return f"_manifest-{number:06}.json"


def manifest_number(name: str) -> int | None:
    """Return the number of a manifest by its name; None if a file of that name is no manifest."""
    if name == MANIFEST_0:
        return 0
    found = MANIFEST.fullmatch(name)
    return int(found[1]) if found else None


def by_hour(paths: Iterable[str], pattern: re.Pattern[str]) -> dict[Hour, list[str]]:
    """Group the files whose names match by hour, in order."""
    found: dict[Hour, list[str]] = {}
    for path in sorted(paths):
        hour = hour_of(path)
        if hour is not None and pattern.fullmatch(name_of(path)):
            found.setdefault(hour, []).append(path)
    return found


def span(hours: Iterable[Hour]) -> tuple[int, int]:
    """Return the range of time from the first to the last of some hours, in µs since 1970; an empty one for none."""
    known = sorted(hours)
    return (known[0].begins, known[-1].ends) if known else (0, 0)


def reaches(hour: Hour, since: int, until: int) -> bool:
    """Whether the hour can have rows with `since` <= ts < `until`."""
    return hour.begins < until and hour.ends > since


def late_files(files: Iterable[str], manifest: Manifest | None) -> list[str]:
    """Return the live files of an hour that are not in its history."""
    known = frozenset((*manifest.sources, *manifest.unreadable)) if manifest else frozenset()
    return [path for path in files if name_of(path) not in known]


def is_closed(hour: Hour, now: int, grace_us: int) -> bool:
    """Whether no more live files are expected for an hour; `grace_us` covers rotation and the delay of copying."""
    return hour.ends + grace_us <= now
