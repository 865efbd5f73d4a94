"""Rows of every kind of record: each is read back as written, replaces an earlier one, and can be removed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from router.model.kinds import KINDS
from router.model.record_kind import Change
from router.storage.rows import ROWS, WRITERS
from router.storage.store import MIGRATIONS

ODD = "n\udcff"  # not UTF-8


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.executescript("".join(MIGRATIONS))
    yield database
    database.close()


def stored(database: sqlite3.Connection) -> list[Change]:
    return [change for rows in ROWS for change in rows.changes(database.execute)]


def write(database: sqlite3.Connection, *changes: Change, durable: bool = True) -> None:
    for change in changes:
        WRITERS[change[0]](database.execute, change, durable)


def rows_of(database: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    return database.execute(f"SELECT * FROM {table}").fetchall()


def test_every_field_has_a_column_and_every_column_but_durable_a_field(database: sqlite3.Connection) -> None:
    for kind in (record_type.record_kind for record_type in KINDS):
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({kind.table})")]
        assert [name for name in columns if name in kind.fields or not kind.durable] == list(kind.fields)
        assert set(columns) - set(kind.fields) == ({"durable"} if kind.durable else set())


def test_there_is_a_writer_of_every_change() -> None:
    kinds = [record_type.record_kind for record_type in KINDS]
    assert set(WRITERS) == {kind.name for kind in kinds} | {kind.gone for kind in kinds if not kind.void}


def test_text_that_is_no_utf_8_is_a_blob_and_all_else_as_it_is(database: sqlite3.Connection) -> None:
    change: Change = ["user", ODD, "caf\u00e9", ["a"]]
    write(database, change)
    assert rows_of(database, "users") == [(b"n\xff", "caf\u00e9", b"\x91\xa1a")]
    assert stored(database) == [change]
    write(database, ["user_gone", ODD])
    assert stored(database) == []


def test_writing_leaves_the_change_as_it_is(database: sqlite3.Connection) -> None:
    """The change is applied and published as well."""
    change: Change = ["binding", "/", "x", "queue", "q", "k", {"a": 1}, None]
    before = [*change]
    write(database, change)
    assert change == before
    write(database, gone := ["binding_gone", *change[1:-1]])
    assert gone == ["binding_gone", *before[1:-1]]


def test_a_record_replaces_the_one_with_its_key(database: sqlite3.Connection) -> None:
    write(database, ["shard", 1, "serving"], ["shard", 2, "serving"], ["shard", 1, "draining"])
    assert stored(database) == [["shard", 1, "draining"], ["shard", 2, "serving"]]


def test_a_fixed_record_is_not_replaced(database: sqlite3.Connection) -> None:
    write(database, ["vhost", "/"])
    with pytest.raises(sqlite3.IntegrityError):
        write(database, ["vhost", "/"])


@pytest.mark.parametrize("void", [["placement", "/", "q", None], ["limits", "user", ODD, {}]])
def test_a_void_record_is_removed(database: sqlite3.Connection, void: Change) -> None:
    write(database, ["placement", "/", "q", 0], ["limits", "user", ODD, {"max-queues": 0}])
    assert len(stored(database)) == 2
    write(database, void)
    assert [change[0] for change in stored(database)] == [{"placement": "limits", "limits": "placement"}[void[0]]]
    write(database, void)
    assert len(stored(database)) == 1


@pytest.mark.parametrize("durable", [False, True])
def test_the_row_of_a_binding_says_whether_it_is_durable(database: sqlite3.Connection, durable: bool) -> None:
    change: Change = ["binding", "/", "x", "queue", "q", "", {}, ODD]
    write(database, change, durable=durable)
    assert database.execute("SELECT durable, maker FROM bindings").fetchall() == [(durable, b"n\xff")]
    assert stored(database) == [change]


def test_flags_come_back_as_such(database: sqlite3.Connection) -> None:
    change: Change = ["exchange", "/", "x", "topic", True, False, True, {}, None, None, None]
    write(database, change)
    (found,) = stored(database)
    assert [type(field) for field in found] == [type(field) for field in change]


def test_queues_come_in_the_order_of_their_ids(database: sqlite3.Connection) -> None:
    for name, queue_id in (("a", 3), ("c", 1), ("b", 2)):
        write(database, ["queue", "/", name, queue_id, 3, 0, True, False, None, {}, [], [], None, None, None])
    assert [change[2] for change in stored(database)] == ["c", "b", "a"]
