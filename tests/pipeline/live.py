"""Telemetry on disk as nodes leave it: files of the live tier, whole or not."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import zstandard

from penstock.telemetry.layout import HOUR_US, SUFFIX, FileName, partition
from penstock.telemetry.schema import TABLES
from tests.pipeline.day import Day
from tests.pipeline.tables import Row


def lines(rows: list[Row]) -> bytes:
    """Return rows as lines of JSON."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write(root: Path, table: str, rows: list[Row], process: str = "console", begun: int | None = None) -> list[Path]:
    """Write files with these rows, one an hour, of two frames each; return their paths."""
    hours = defaultdict(list)
    for row in rows:
        hours[row["ts"] // HOUR_US].append(row)
    written = []
    for hour, own in hours.items():
        directory = partition(root, table, hour)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / str(FileName("node-1", process, own[0]["ts"] if begun is None else begun, True))
        middle = len(own) // 2
        path.write_bytes(b"".join(zstandard.compress(lines(part)) for part in (own[:middle], own[middle:])))
        written.append(path)
    return written


def write_day(root: Path, day: Day, files: int = 3) -> None:
    """Write all tables of a day, each in `files` files an hour."""
    for table in TABLES:
        rows = getattr(day, table)
        for number in range(files):
            write(root, table, rows[number::files], f"writer.{number}")


def add(path: Path, data: bytes) -> None:
    """Write another file beside one."""
    path.with_name(f"node-1-odd-{path.stat().st_mtime_ns}{SUFFIX}").write_bytes(data)
