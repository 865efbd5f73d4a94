"""Where summaries lie, and whether they are current. Names only, no file access.

    <root>/history/queue_hours/v=1/dt=2026-11-20/hour=13/part-<run>-<number>.parquet, _manifest-000001.json
    <root>/history/queue_days/v=1/dt=2026-11-20/part-<run>-<number>.parquet, _manifest-000001.json
    <root>/history/shard_slots/v=1/dt=2026-11-20/hour=13/part-<run>-<number>.parquet, _manifest-000001.json

The manifest of a summary (`pipeline.manifests`) names the parts that it was made from. It is current while these are
the parts of the history: an hour that is compacted again has other parts. Where the history of an hour was deleted, its
summary stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Self

from pipeline.layout import Hour
from pipeline.layout import Manifest as History

QUEUE_HOURS: Final = "queue_hours"
QUEUE_DAYS: Final = "queue_days"
SHARD_SLOTS: Final = "shard_slots"
DAY_PATH: Final = re.compile(r"/dt=(\d{4}-\d\d-\d\d)(?:/(?!hour=)|$)")
TABLE_OF: Final = {QUEUE_HOURS: "depth", SHARD_SLOTS: "shard"}
"""The table whose hours a summary is made from."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of an hour or a day of a dataset: names of its parts and their number of `summaries`; names of the
    parts that it was made from; `rows` of telemetry in it, and rows `lost` before they were written.
    """

    parts: tuple[str, ...]
    sources: tuple[str, ...]
    summaries: int
    rows: int
    lost: int

    def to_json(self) -> str:
        """Serialize the manifest."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self | None:
        """Parse a manifest; None if it is incomplete: the summary is made again."""
        try:
            facts = json.loads(text)
            parts, sources = (tuple(map(str, facts[name])) for name in ("parts", "sources"))
            summaries, rows, lost = (int(facts[name]) for name in ("summaries", "rows", "lost"))
            return cls(parts, sources, summaries, rows, lost)
        except (ValueError, KeyError, TypeError):
            return None


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of an hour or a day: its directory, and its manifest."""

    directory: str
    manifest: Manifest

    @property
    def paths(self) -> list[str]:
        """Its parts."""
        return [f"{self.directory}/{part}" for part in self.manifest.parts]


def day_path(day: str) -> str:
    """Return the directory of a day below its dataset's."""
    return f"dt={day}"


def day_of(path: str) -> str | None:
    """Return the day of a directory or file by its path; None if the path names none, or an hour of it."""
    found = DAY_PATH.search(path)
    return found[1] if found else None


def current(made: Mapping[Hour, Summary], history: Mapping[Hour, History]) -> dict[Hour, Summary]:
    """Return the summaries of hours that are current."""
    return {
        hour: summary
        for hour, summary in made.items()
        if hour not in history or set(history[hour].parts) == set(summary.manifest.sources)
    }


def parts_of(hours: Iterable[Summary]) -> tuple[str, ...]:
    """Return the names of all parts, in order."""
    return tuple(sorted(part for summary in hours for part in summary.manifest.parts))
