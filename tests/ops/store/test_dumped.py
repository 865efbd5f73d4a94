"""The format of a dump: the items of a file, and changes of older versions in today's form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ops.store.dump import dump
from ops.store.dumped import END, LEASE, MAGIC, MESSAGE, SHARD, TOPOLOGY, VERSION, of_today
from penstock.bus import unpack_stream
from tests.ops.store.dumping import eventful, with_topology


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    with_topology(path)
    eventful(path)
    return path


def test_a_dump_has_the_documented_items(data: Path, tmp_path: Path) -> None:
    dump(data, tmp_path / "dump")
    with (tmp_path / "dump").open("rb") as file:
        items = list(unpack_stream(file, 1 << 20))
    assert items[0][:2] == [MAGIC, VERSION]
    assert set(items[0][2]) == {"penstock", "topology", "last_queue_id", "clock"}
    assert {item[0] for item in items} == {MAGIC, TOPOLOGY, SHARD, LEASE, MESSAGE, END}
    assert {item[0]: len(item) for item in items} == {MAGIC: 3, TOPOLOGY: 2, SHARD: 2, LEASE: 4, MESSAGE: 10, END: 2}
    assert items[-1] == [END, sum(item[0] == MESSAGE for item in items)]


def test_names_of_the_format_stay_as_they_are() -> None:
    """Dumps with these names exist."""
    assert (MAGIC, TOPOLOGY, SHARD, LEASE, MESSAGE, END) == (
        "penstock dump", "topology", "shard", "lease", "message", "end",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "version", "today"),
    [
        (["queue", "/", "q"], 1, ["queue", "/", "q", None]),
        (["exchange", "/", "x"], 1, ["exchange", "/", "x", None]),
        (["vhost", "/"], 1, ["vhost", "/"]),
        (["queue", "/", "q", "bob"], 2, ["queue", "/", "q", "bob"]),
    ],
)
def test_version_1_does_not_know_who_declared_what(change: list[Any], version: int, today: list[Any]) -> None:
    assert of_today(change, version) == today
