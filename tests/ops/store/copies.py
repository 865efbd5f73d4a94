"""A data directory to back up, and backups restored."""

from __future__ import annotations

from pathlib import Path

from ops.store import manifest
from ops.store.replace import replace
from tests.ops.store.making import fill
from tests.ops.store.test_recognition import run

COUNTS = {7: 30, 8: 20}


def ran(data: Path) -> Path:
    """Make the data of a node that has run, with messages on two shards."""
    data.mkdir()
    run(data, 11)
    fill(data, 0, COUNTS, epoch=11)
    fill(data, 1, {9: 5}, epoch=11)
    run(data, 12)
    return data


def restored(source: Path, data: Path) -> list[str]:
    """Restore a backup; return the new names of the old files."""
    data.mkdir(exist_ok=True)
    return replace(source, manifest.load(source), data)


def content(data: Path) -> dict[str, bytes]:
    """Return the contents of all files except the remains of SQLite's log after a read."""
    files = [path for path in data.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal"))]
    return {str(path.relative_to(data)): path.read_bytes() for path in files}
