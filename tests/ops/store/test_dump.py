"""A dump: a restore brings back what was there, and a damaged store is not dumped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ops.store.check import check
from ops.store.dump import dump, stored_topology
from ops.store.opened import opened
from ops.store.restore import restore
from tests.ops.store.dumping import NAMES, eventful, everything, with_topology
from tests.ops.store.making import change, made


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    with_topology(path)
    eventful(path)
    return path


def test_round_trip(data: Path, tmp_path: Path) -> None:
    before = everything(data)
    count = dump(data, tmp_path / "dump")
    assert (tmp_path / "dump").stat().st_mode & 0o777 == 0o600
    assert count.queues == 3
    assert count.messages == sum(id >= 0 for id, _ in before)
    copy = tmp_path / "copy"
    copy.mkdir()
    assert restore(tmp_path / "dump", copy) == count
    assert everything(copy) == before
    found = [check(copy / "shards" / str(shard), shard) for shard in (0, 1)]
    assert [each.problems for each in found] == [0, 0]
    one, other = stored_topology(data), stored_topology(copy)
    assert (other.version, other.last_queue_id, other.seeded) == (33, 10, True)
    assert one.changes == other.changes
    assert {change[2] for change in other.changes if change[0] == "queue"} == set(NAMES.values())


def test_the_source_is_left_as_it_is(data: Path, tmp_path: Path) -> None:
    files = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    dump(data, tmp_path / "dump")
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == files


def test_a_damaged_store_is_not_dumped(data: Path, tmp_path: Path) -> None:
    with opened(made(data, 0), 0) as store:
        key, value = next(store.records("contents"))
        stored = bytes(value)

    def cut(txn: Any, dbs: dict[str, Any]) -> None:
        txn.put(key, stored[:-1], db=dbs["contents"])

    change(data / "shards" / "0", cut)
    with pytest.raises(Exception, match="queue 7, message "):
        dump(data, tmp_path / "dump")
    assert not list(tmp_path.glob("dump*"))
