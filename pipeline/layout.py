"""Where rows of telemetry lie: hours of the live tier (JSON lines) and of the history (Parquet). Names only, no files.

    <root>/<table>/v=1/dt=2026-11-20/hour=13/<writer's file>.jsonl.zst
    <root>/history/<table>/v=1/dt=2026-11-20/hour=13/part-<run>-<number>.parquet, _SUCCESS

`_SUCCESS` of an hour in the history is its *manifest*: which parts make it up, and which live files are in them. A live
file that it does not name came late and is read beside the history until the hour is compacted again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from penstock.telemetry.schema import VERSION

MANIFEST = "_SUCCESS"
PART = re.compile(r"part-.*\.parquet")
LIVE = re.compile(r"[^._].*\.jsonl\.zst")
HOUR_PATH = re.compile(r"/dt=(\d{4}-\d\d-\d\d)/hour=(\d{1,2})(?:/|$)")
HOUR_US = 3_600_000_000


@dataclass(frozen=True, slots=True, order=True)
class Hour:
    """An hour of a day, UTC: `dt` as in 2026-11-20."""

    dt: str
    hour: int

    @classmethod
    def of(cls, ts: int) -> Self:
        """The hour of a time in µs since 1970."""
        at = datetime.fromtimestamp(ts // 1_000_000, UTC)
        return cls(at.strftime("%Y-%m-%d"), at.hour)

    @property
    def begins(self) -> int:
        """µs since 1970."""
        day = datetime.strptime(self.dt, "%Y-%m-%d").replace(tzinfo=UTC)
        return int((day + timedelta(hours=self.hour)).timestamp()) * 1_000_000

    @property
    def ends(self) -> int:
        """µs since 1970, not in it any more."""
        return self.begins + HOUR_US

    @property
    def path(self) -> str:
        return f"dt={self.dt}/hour={self.hour}"

    def __str__(self) -> str:
        return f"{self.dt} {self.hour:02}:00"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an hour of the history is made of: names of its parts, names of the live files in them, and counts."""

    parts: tuple[str, ...]
    sources: tuple[str, ...]
    rows: int
    duplicates: int
    corrupt: int
    unreadable: tuple[str, ...] = ()

    def written(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """None if it is not whole: the hour is compacted again."""
        try:
            facts = json.loads(text)
            parts, sources, unreadable = (tuple(map(str, facts[name])) for name in ("parts", "sources", "unreadable"))
            rows, duplicates, corrupt = (int(facts[name]) for name in ("rows", "duplicates", "corrupt"))
            return cls(parts, sources, rows, duplicates, corrupt, unreadable)
        except (ValueError, KeyError, TypeError):
            return None


NOTHING = Manifest((), (), 0, 0, 0)
"""Of an hour that has no history."""


def live_base(root: str, table: str) -> str:
    return f"{root.rstrip('/')}/{table}/v={VERSION}"


def history_base(root: str, table: str) -> str:
    return f"{root.rstrip('/')}/history/{table}/v={VERSION}"


def hour_of(path: str) -> Hour | None:
    """The hour that a directory or file lies in; None if it is named otherwise."""
    found = HOUR_PATH.search(path)
    if found is None or int(found[2]) > 23:
        return None
    return Hour(found[1], int(found[2]))


def name_of(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def by_hour(paths: Iterable[str], pattern: re.Pattern[str]) -> dict[Hour, list[str]]:
    """Files whose names match, in order, by the hours they lie in."""
    found: dict[Hour, list[str]] = {}
    for path in sorted(paths):
        hour = hour_of(path)
        if hour is not None and pattern.fullmatch(name_of(path)):
            found.setdefault(hour, []).append(path)
    return found


def reaches(hour: Hour, since: int, until: int) -> bool:
    """Whether the hour has rows with `since` <= ts < `until`."""
    return hour.begins < until and hour.ends > since


def late(files: Iterable[str], manifest: Manifest | None) -> list[str]:
    """Those live files of an hour that are not in its history."""
    known = frozenset((*manifest.sources, *manifest.unreadable)) if manifest else frozenset()
    return [path for path in files if name_of(path) not in known]


def is_closed(hour: Hour, now: int, grace_us: int) -> bool:
    """Whether nothing more is expected of an hour; `grace_us` covers rotation and the delay of copying."""
    return hour.ends + grace_us <= now
