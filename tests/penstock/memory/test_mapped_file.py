"""The file of gauges: making it, opening it, refusing others."""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path

import pytest

from penstock.memory.gauges import Gauges
from penstock.memory.layout import LAYOUT_VERSION, MAGIC
from penstock.memory.mapped_file import MappedFile
from tests.penstock.memory.gauges_file import (
    ACCEPTORS,
    NAMES_SIZE,
    QUEUES,
    SHARDS,
    SLOT_SIZE,
    SLOTS,
    make,
)


def test_file_is_private_and_sparse(directory: Path) -> None:
    path = directory / "sparse.gauges"
    with make(path, queues=2**20) as gauges:
        gauges.queue_open(2**19, 1, "/", "q", 1)
        assert gauges.queue_read(2**18) is None and not gauges.saturated(2**18)
        assert list(gauges.queue_slots()) == [0, 1, 2**19]
        facts = path.stat()
    assert stat.S_IMODE(facts.st_mode) == 0o600
    assert facts.st_size > 2**20 * (SLOT_SIZE + NAMES_SIZE)
    assert facts.st_blocks * 512 < 64 * 1024


def test_create_refuses_a_path_in_use(gauges: Gauges, path: Path) -> None:
    with pytest.raises(FileExistsError):
        make(path)
    assert Gauges.open(path).epoch == 17


@pytest.mark.parametrize(
    "wrong",
    [{"acceptors": 0}, {"shards": 0}, {"queues": 0}, {"shards": 2**20}, {"pid": 0}, {"epoch": -1}, {"epoch": 2**64}],
)
def test_create_refuses_impossible_counts_and_leaves_nothing(path: Path, wrong: dict[str, int]) -> None:
    facts = {"epoch": 1, "acceptors": 1, "shards": 1, "queues": 1, "pid": 1, **wrong}
    with pytest.raises(ValueError, match="no "):
        Gauges.create(path, **facts)
    assert not path.exists()


def test_open_shares_what_was_created(gauges: Gauges, path: Path) -> None:
    with Gauges.open(str(path)) as other:
        assert (other.epoch, other.pid, other.path) == (17, os.getpid(), path)
        assert (other.acceptors, other.shards, other.queues, other.slots) == (ACCEPTORS, SHARDS, QUEUES, SLOTS)
        other.set_topology_version(5)
        other.queue_open(7, 1, "/", "q", 1)
        assert gauges.topology_version() == 5
        assert gauges.queue_read(7) == other.queue_read(7)


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        (b"", "is not a gauges file"),
        (b"PENSTOCK", "is not a gauges file"),
        (b"NOTPENST" + bytes(200), "is not a gauges file"),
        (MAGIC + struct.pack("=QQQQQQ", 99, 1, 1, 1, 1, 1), f"version 99, this penstock has version {LAYOUT_VERSION}"),
        (MAGIC + struct.pack("=QQQQQQ", LAYOUT_VERSION, 1, 1, 1, 1, 1), "has 56 bytes, its header says"),
        (MAGIC + struct.pack("=QQQQQQ", LAYOUT_VERSION, 1, 1, 2**60, 2**60, 2**60), "no node has"),
        (MAGIC + struct.pack("=QQQQQQ", LAYOUT_VERSION, 1, 1, 1, 1, 0), "no node has"),
    ],
)
def test_open_refuses_other_files(path: Path, contents: bytes, complaint: str) -> None:
    path.write_bytes(contents)
    with pytest.raises(ValueError, match=complaint):
        Gauges.open(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        Gauges.open(path)


def test_open_refuses_a_file_that_is_not_complete(path: Path) -> None:
    with MappedFile.create(path, epoch=17, acceptors=1, shards=1, queues=1, pid=1) as made:
        with pytest.raises(ValueError, match="is not a gauges file"):
            MappedFile.open(path)
        made.complete()
        with MappedFile.open(path) as opened:
            assert (opened.epoch, opened.slots) == (17, 2)


def test_only_create_and_open_make_one() -> None:
    with pytest.raises(TypeError):
        MappedFile()  # type: ignore[call-arg,unused-ignore]
