"""The sums of the topology's tables: kept up to date by the router's own writes, and wrong after any other."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.storage import sums

TABLES = "CREATE TABLE a (name TEXT PRIMARY KEY, value) WITHOUT ROWID; CREATE TABLE b (name TEXT PRIMARY KEY, value);"


def prepared(path: Path | str = ":memory:") -> sqlite3.Connection:
    """Return a database of two tables whose sums are kept."""
    database = sqlite3.connect(path, isolation_level=None)
    database.executescript(TABLES)
    sums.rebuild(database)
    sums.install_triggers(database)
    return database


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    database = prepared()
    yield database
    database.close()


def stored(database: sqlite3.Connection) -> list[tuple[str, int, int]]:
    return database.execute("SELECT name, count, total FROM sums ORDER BY name").fetchall()


VALUES = st.one_of(st.integers(-9, 9), st.text("ab", max_size=2), st.binary(max_size=2), st.none())
STEPS = st.lists(
    st.tuples(st.sampled_from(["INSERT", "REPLACE", "UPDATE", "DELETE"]), st.sampled_from("ab"),
              st.sampled_from("xyz"), VALUES),
    max_size=20,
)  # fmt: skip


@settings(max_examples=40)
@given(STEPS)
def test_every_write_of_its_own_keeps_the_sums(steps: list[tuple[str, str, str, object]]) -> None:
    database = prepared()
    for what, table, name, value in steps:
        if what == "DELETE":
            database.execute(f"DELETE FROM {table} WHERE name = ?", (name,))
        elif what == "UPDATE":
            database.execute(f"UPDATE {table} SET value = ? WHERE name = ?", (value, name))
        else:
            verb = "INSERT OR IGNORE" if what == "INSERT" else "INSERT OR REPLACE"
            database.execute(f"{verb} INTO {table} VALUES (?, ?)", (name, value))
        assert sums.damaged_table(database) is None
    before = stored(database)
    sums.rebuild(database)
    assert stored(database) == before
    database.close()


def test_equal_rows_of_different_tables_differ_and_their_order_does_not_count(database: sqlite3.Connection) -> None:
    for table, names in (("a", "xy"), ("b", "yx")):
        for name in names:
            database.execute(f"INSERT INTO {table} VALUES (?, 1)", (name,))
    (_, count, total), (_, other_count, other_total) = stored(database)
    assert count == other_count == 2 and total != other_total
    database.execute("DELETE FROM a")
    assert stored(database)[0] == ("a", 0, 0)


@pytest.mark.parametrize(
    ("change", "table"),
    [
        ("INSERT INTO a VALUES ('new', 1)", "a"),
        ("DELETE FROM b WHERE name = 'x'", "b"),
        ("UPDATE b SET value = 2 WHERE name = 'x'", "b"),
        ("UPDATE a SET value = '1' WHERE name = 'x'", "a"),
        ("UPDATE a SET value = 2 - value", "a"),
        ("DELETE FROM sums WHERE name = 'b'", "b"),
        ("CREATE TABLE c (name)", "c"),
    ],
)
def test_a_write_by_another_program_is_detected(tmp_path: Path, change: str, table: str) -> None:
    path = tmp_path / "d.sqlite"
    with prepared(path) as database:
        for name in ("a", "b"):
            database.executemany(f"INSERT INTO {name} VALUES (?, ?)", [("x", 1), ("y", 3)])
    database.close()
    other = sqlite3.connect(path, isolation_level=None)
    assert sums.damaged_table(other) is None
    other.execute(change)
    assert sums.damaged_table(other) == table
    sums.rebuild(other)
    assert sums.damaged_table(other) is None
    other.close()


def test_a_transaction_that_is_rolled_back_leaves_the_sums(database: sqlite3.Connection) -> None:
    database.execute("INSERT INTO a VALUES ('x', 1)")
    before = stored(database)
    database.execute("BEGIN")
    database.execute("INSERT INTO a VALUES ('y', 1)")
    database.execute("ROLLBACK")
    assert stored(database) == before and sums.damaged_table(database) is None
