"""The topology as `penstock store` reads it: a copy of one moment, be its node running or not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from router.store import FILE_NAME, StoreError, facts_of


def copy_topology(data: Path, to: Path) -> None:
    """Write a copy of the file to another one. sqlite3.Error if that cannot be.

    Nobody who writes waits for it.
    """
    with (
        closing(sqlite3.connect(f"{(data / FILE_NAME).absolute().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(to)) as copy,
    ):
        source.backup(copy)


def check_topology(data: Path) -> list[str]:
    """What is wrong with the file of exchanges, queues and bindings; nothing if there is none."""
    path = data / FILE_NAME
    if not path.exists():
        return []
    with TemporaryDirectory() as beside:
        copy = Path(beside) / FILE_NAME
        try:
            copy_topology(data, copy)
            with closing(sqlite3.connect(copy)) as database:
                found = [str(row[0]) for row in database.execute("PRAGMA integrity_check")]
            if found == ["ok"]:
                facts_of(copy)
        except sqlite3.Error as error:
            return [f"{path}: {error}"]
        except StoreError as error:
            return [str(error).replace(str(copy), str(path))]
    return [f"{path}: {text}" for text in found if text != "ok"]
