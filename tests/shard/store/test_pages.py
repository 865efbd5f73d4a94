"""Pages of an LMDB file, read without a map: all records of LMDB, and all readable ones of damaged files."""

from __future__ import annotations

import random
from pathlib import Path

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shard.contents.errors import DamagedError
from shard.contents.queue_cy import UNLIMITED
from shard.store.pages import PAGE, Pages
from shard.store.probe import check_store
from tests.shard.store.test_store import OpenedStore, batch

RECORDS = st.dictionaries(st.binary(min_size=1, max_size=40), st.integers(0, 3 * PAGE), max_size=60)


def written(path: Path, **databases: dict[bytes, bytes]) -> Path:
    """Write databases; return the path of their file."""
    with lmdb.open(str(path), max_dbs=len(databases), map_size=1 << 24) as env:
        for name, records in databases.items():
            db = env.open_db(name.encode())
            with env.begin(write=True) as txn:
                for key, value in records.items():
                    txn.put(key, value, db=db)
    return path / "data.mdb"


@settings(max_examples=30)
@given(RECORDS)
def test_a_walk_yields_what_lmdb_has(tmp_path_factory: pytest.TempPathFactory, sizes: dict[bytes, int]) -> None:
    """Records come in the order of keys, with values in their page or in pages of their own."""
    records = {key: random.Random(key).randbytes(size) for key, size in sizes.items()}
    with Pages(written(tmp_path_factory.mktemp("lmdb"), one=records, other={b"k": b"v"})) as pages:
        roots = pages.databases()
        assert set(roots) == {"one", "other"} if records else {"other"}, "empty databases have no pages"
        walked = [(key, pages.read(value)) for key, value in (pages.walk(roots["one"]) if records else ())]
        assert walked == sorted(records.items())
        pages.check_free()
        assert pages.damaged == 0


def test_damaged_pages_are_counted_and_the_others_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, one={b"%04d" % number: bytes(200) for number in range(200)})
    with Pages(path) as pages:
        root = pages.databases()["one"]
        offsets = {key: value.offset for key, value in pages.walk(root)}
    lost = offsets[b"0100"] // PAGE
    with path.open("r+b") as file:
        file.seek(lost * PAGE)
        file.write(b"\xff" * PAGE)
    with Pages(path) as pages:
        assert [key for key, _ in pages.walk(root)] == [key for key in offsets if offsets[key] // PAGE != lost]
        assert pages.damaged == 1


def test_a_scan_finds_records_that_no_root_leads_to(tmp_path: Path) -> None:
    path = written(tmp_path, one={b"%04d" % number: bytes(200) for number in range(200)})
    with path.open("r+b") as file:
        file.write(bytes(2 * PAGE))
    with Pages(path) as pages:
        assert pages.databases() == {} and pages.damaged == 2
        assert {b"%04d" % number for number in range(200)} <= {key for key, _ in pages.scan()}
        with pytest.raises(ValueError, match=r"^the free pages cannot be read$"):
            pages.check_free()


def test_a_file_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Pages(tmp_path / "data.mdb")


def test_what_is_free_is_checked(tmp_path: Path) -> None:
    """Pages marked as free are overwritten."""
    opened = OpenedStore(tmp_path)
    for _ in range(20):
        opened.queue.enqueue(batch(bytes(9000)), 0, 1)
        opened.commit()
        for item in opened.queue.pop(1, UNLIMITED, False):
            opened.queue.settle(item.sequence, item.count)
        opened.commit()
    opened.end()
    check_store(tmp_path, 0)
    path = tmp_path / "data.mdb"
    data = bytearray(path.read_bytes())
    newest = max((0, 4096), key=lambda page: int.from_bytes(data[page + 144 : page + 152], "little"))
    root = int.from_bytes(data[newest + 16 + 24 + 40 : newest + 16 + 24 + 48], "little")
    data[root * 4096 + 4000 : root * 4096 + 4096] = bytes(range(96))
    path.write_bytes(data)
    with pytest.raises(DamagedError, match="free"):
        check_store(tmp_path, 0)


def test_pages_of_garbage(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for seed in range(50):
        chance = random.Random(seed)
        data = bytearray(chance.randbytes(4096 * 8 - chance.randrange(4000)))
        for number in range(8):
            data[4096 * number : 4096 * number + 8] = number.to_bytes(8, "little")
        path.write_bytes(data)
        with Pages(path) as pages:
            assert len(list(pages.scan())) < 4096 * 8
            for root in range(9):
                assert len(list(pages.walk(root))) < 1_000_000
            pages.databases()
