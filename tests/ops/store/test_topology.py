"""The file of exchanges, queues and bindings, checked on a copy of one moment."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ops.store.topology import check_topology, copy_topology, reading
from router.storage.store import Store as TopologyStore
from tests.ops.store.dumping import with_topology


def test_a_file_that_is_none_is_a_problem_and_no_file_is_not(tmp_path: Path) -> None:
    assert check_topology(tmp_path) == []
    TopologyStore(tmp_path / "topology.sqlite", 1).close()
    assert check_topology(tmp_path) == []
    (tmp_path / "topology.sqlite").write_bytes(b"x" * 10_000)
    assert check_topology(tmp_path) == [f"{tmp_path}/topology.sqlite: file is not a database"]


def test_contents_that_were_changed_behind_its_back_are_a_problem_of_the_file(tmp_path: Path) -> None:
    with_topology(tmp_path)
    assert check_topology(tmp_path) == []
    path = tmp_path / "topology.sqlite"
    path.write_bytes(path.read_bytes().replace(b"plain", b"pLain"))
    assert check_topology(tmp_path) == [f"{path}: it is damaged: the queues are not what was written"]


def test_a_copy_is_of_one_moment_and_leaves_no_log_beside_it(tmp_path: Path) -> None:
    with_topology(tmp_path)
    with closing(reading(tmp_path)) as source, closing(sqlite3.connect(tmp_path / "topology.sqlite")) as writer:
        source.execute("BEGIN")
        before = source.execute("SELECT count(*) FROM sqlite_master").fetchone()
        writer.execute("CREATE TABLE later (x)")
        copy_topology(source, tmp_path / "copy")
    with closing(sqlite3.connect(tmp_path / "copy")) as copy:
        assert copy.execute("SELECT count(*) FROM sqlite_master").fetchone() == before
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert list(tmp_path.glob("copy-*")) == []


def test_a_reading_connection_only_reads(tmp_path: Path) -> None:
    with_topology(tmp_path)
    with closing(reading(tmp_path)) as source, pytest.raises(sqlite3.OperationalError, match="readonly"):
        source.execute("CREATE TABLE later (x)")
    with pytest.raises(sqlite3.OperationalError):
        reading(tmp_path / "none")
