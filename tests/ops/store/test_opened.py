"""The stores of a data directory, opened for reading, also while a node writes them."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ops.errors import CommandError
from ops.store.opened import opened, store_paths
from shard.contents.errors import StoreError
from shard.store.stored import FORMAT, KEY, NUMBER
from tests.ops.store.making import change, fill, made
from tests.ops.store.writing import ROOT, readers, written


def test_stores_are_listed_in_order_of_their_shards(tmp_path: Path) -> None:
    """The order is by number, not by name; other directories and stores that were never finished are left out."""
    assert store_paths(tmp_path) == []
    paths = [made(tmp_path, shard) for shard in (10, 2, 0)]
    (tmp_path / "shards" / "2.set-aside").mkdir()
    (tmp_path / "shards" / "5").mkdir()
    assert store_paths(tmp_path) == [(0, paths[2]), (2, paths[1]), (10, paths[0])]


def test_a_directory_that_cannot_be_listed(tmp_path: Path) -> None:
    (tmp_path / "shards").touch()
    with pytest.raises(CommandError, match=f"^cannot read {tmp_path}/shards: Not a directory$"):
        store_paths(tmp_path)


def test_records_come_in_order_from_a_key_on(tmp_path: Path) -> None:
    path = fill(tmp_path, 1, {7: 6, 9: 3})
    with opened(path, 1) as store:
        keys = [KEY.unpack(key) for key, _ in store.records("contents")]
        assert [queue for queue, _ in keys] == [7, 7, 9]
        assert keys == sorted(keys)
        assert store.entries("contents") == 3
        assert [KEY.unpack(key) for key, _ in store.records("contents", KEY.pack(8, 0))] == keys[2:]
        assert list(store.records("contents", KEY.pack(10, 0))) == []
        assert store.facts(1)["format"] == FORMAT


def test_a_damaged_record_is_not_unsealed(tmp_path: Path) -> None:
    path = fill(tmp_path, 0, {7: 3})
    change(path, lambda txn, dbs: txn.put(b"some key", b"x" * 20, db=dbs["leases"]))
    with opened(path, 0) as store, pytest.raises(ValueError, match=r"^a record of leases is damaged$"):
        list(store.unsealed("leases"))


def test_a_store_of_another_shard_an_older_or_a_newer_format_is_not_opened(tmp_path: Path) -> None:
    path = made(tmp_path, 1)

    def refusal(shard: int) -> str:
        with pytest.raises(StoreError) as refused, opened(path, shard):
            pass
        return refused.value.reason

    assert refusal(2) == "it is the store of shard 1"
    change(path, lambda txn, dbs: txn.put(b"format", NUMBER.pack(FORMAT + 1), db=dbs["facts"]))
    assert refusal(1) == f"it is of format {FORMAT + 1}, this penstock knows format {FORMAT}"
    path = fill(tmp_path, 3, {})
    change(path, lambda txn, dbs: txn.put(b"format", NUMBER.pack(2), db=dbs["facts"]))
    assert refusal(3) == "it is of format 2: the next start of the node converts it"


def test_a_missing_store_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreError), opened(tmp_path / "none", 0):
        pass
    assert not (tmp_path / "none").exists()


def test_a_snapshot_stays_as_it_was_while_the_store_is_written(tmp_path: Path) -> None:
    path = fill(tmp_path, 0, {9: 6})
    with written(path) as write, opened(path, 0, live=True) as store:
        before = list(store.unsealed("index"))
        write(3)
        assert list(store.unsealed("index")) == before
    with opened(path, 0) as store:
        assert list(store.unsealed("index")) != before


def test_who_is_killed_while_it_reads_pins_nothing(tmp_path: Path) -> None:
    path = fill(tmp_path, 0, {7: 10})
    program = (
        "import sys\nfrom pathlib import Path\nfrom ops.store.opened import opened\n"
        "with opened(Path(sys.argv[1]), 0, live=True):\n    print('reads', flush=True)\n    sys.stdin.read()\n"
    )
    with written(path) as write:
        reader = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert reader.stdout and reader.stdout.readline() == b"reads\n"
        assert str(reader.pid) in readers(path)
        reader.send_signal(signal.SIGKILL)
        reader.communicate()
        assert str(reader.pid) in readers(path)
        write(1)
        assert str(reader.pid) not in readers(path)


def test_a_store_that_its_node_has_not_opened_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fill(tmp_path, 0, {7: 10})
    monkeypatch.setattr("shard.store.checkpoint.boot_id", lambda: "another boot")
    with pytest.raises(StoreError, match="the node has not opened it yet"), opened(path, 0, live=True):
        pass
