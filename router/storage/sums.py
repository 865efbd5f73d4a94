"""The number of rows of each table of the topology, and the sum of their checksums: SQLite itself stores none.

Triggers update both in the transaction that changes a row. They belong to the connection, as does the function that
they call: a program that writes without them is detected.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from xxhash import xxh3_64_intdigest

from penstock.bus import pack

NAME = "sums"
CREATE = f"CREATE TABLE IF NOT EXISTS {NAME} (name TEXT PRIMARY KEY, count INTEGER, total INTEGER) WITHOUT ROWID"
_ALL = (1 << 62) - 1
"""Sums are modulo 2**62, so that the sum of two still fits an integer of SQLite's."""


def install_triggers(database: sqlite3.Connection) -> None:
    """Keep the sums of all tables up to date as long as the connection is open."""
    database.create_function("row_checksum", -1, _checksum, deterministic=True)
    database.execute("PRAGMA recursive_triggers = ON")  # else a row that is replaced is not deleted
    for table, columns in _tables(database).items():
        old, new = (", ".join(f"{row}.{column}" for column in columns) for row in ("OLD", "NEW"))
        less = f"count = count - 1, total = (total - row_checksum('{table}', {old})) & {_ALL}"
        more = f"count = count + 1, total = (total + row_checksum('{table}', {new})) & {_ALL}"
        for event, changes in (("DELETE", [less]), ("INSERT", [more]), ("UPDATE", [less, more])):
            updates = "".join(f"UPDATE {NAME} SET {change} WHERE name = '{table}'; " for change in changes)
            database.execute(
                f"CREATE TEMP TRIGGER sum_{table}_{event} AFTER {event} ON main.{table} BEGIN {updates}END"
            )


def rebuild(database: sqlite3.Connection) -> None:
    """Store the sums of the tables as they are, in an open transaction."""
    database.execute(CREATE)
    database.execute(f"DELETE FROM {NAME}")
    found = _found(database).items()
    database.executemany(f"INSERT INTO {NAME} VALUES (?, ?, ?)", [(name, *sums) for name, sums in found])


def damaged_table(database: sqlite3.Connection) -> str | None:
    """Return the first table that differs from its sums, None if none does."""
    stored = {name: (count, total) for name, count, total in database.execute(f"SELECT * FROM {NAME}")}
    for name, sums in _found(database).items():
        if stored.get(name) != sums:
            return name
    return None


def _found(database: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    found = {}
    for table, columns in _tables(database).items():
        count = total = 0
        for row in database.execute(f"SELECT {', '.join(columns)} FROM {table}"):
            count, total = count + 1, (total + _checksum(table, *row)) & _ALL
        found[table] = count, total
    return found


def _tables(database: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the tables with their columns."""
    columns: dict[str, list[str]] = {}
    for table, column in database.execute(
        "SELECT tables.name, columns.name FROM main.sqlite_master AS tables, pragma_table_info(tables.name, 'main') "
        "AS columns WHERE tables.type = 'table' ORDER BY tables.name, columns.cid"
    ):
        if table != NAME and not table.startswith("sqlite_"):
            columns.setdefault(table, []).append(column)
    return columns


def _checksum(*values: Any) -> int:
    return xxh3_64_intdigest(pack(list(values))) & _ALL
