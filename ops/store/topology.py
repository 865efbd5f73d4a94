"""The topology as `penstock store` reads it: a copy of one moment, be its node running or not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from router.storage.store import FILE_NAME, StoreError, facts_of


def reading(data: Path) -> sqlite3.Connection:
    """A connection that only reads, for which nobody waits who writes. sqlite3.Error if there cannot be one."""
    uri = f"{(data / FILE_NAME).absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


def copy_topology(source: sqlite3.Connection, to: Path) -> None:
    """Write what a connection reads to a file of its own. sqlite3.Error if that cannot be."""
    with closing(sqlite3.connect(to)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # else whoever looks at it leaves a log beside it


def check_topology(data: Path) -> list[str]:
    """What is wrong with the file of exchanges, queues and bindings; nothing if there is none."""
    path = data / FILE_NAME
    if not path.exists():
        return []
    with TemporaryDirectory() as beside:
        copy = Path(beside) / FILE_NAME
        try:
            with closing(reading(data)) as source:
                copy_topology(source, copy)
            with closing(sqlite3.connect(copy)) as database:
                found = [str(row[0]) for row in database.execute("PRAGMA integrity_check")]
            if found == ["ok"]:
                facts_of(copy)
        except sqlite3.Error as error:
            return [f"{path}: {error}"]
        except StoreError as error:
            return [str(error).replace(str(copy), str(path))]
    return [f"{path}: {text}" for text in found if text != "ok"]
