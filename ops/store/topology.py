"""The topology as `penstock store` reads it: a copy of one moment, whether or not its node runs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from router.storage.store import FILE_NAME, StoreError, facts_of


def reading(data: Path) -> sqlite3.Connection:
    """Open a connection that only reads and blocks no writer. sqlite3.Error if that fails."""
    uri = f"{(data / FILE_NAME).absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


def copy_topology(source: sqlite3.Connection, to: Path) -> None:
    """Copy the database of a connection to a file. sqlite3.Error if that fails."""
    with closing(sqlite3.connect(to)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # otherwise a reader would leave a log beside it


def check_topology(data: Path) -> list[str]:
    """Return the problems of the file of exchanges, queues and bindings; none if there is no file."""
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
