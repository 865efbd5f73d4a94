"""An environment on a failing disk: committed data stays readable, and writing goes on afterwards."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import pytest

from shard.contents.errors import StoreError
from shard.store.environment import Environment
from tests.faults.disk import Calls, Disk

CALLS = [Calls.WRITE, Calls.SYNC, Calls.WRITE | Calls.SYNC, Calls.SHORT, Calls.OPEN | Calls.SYNC]
PROGRAM = """
import json, sys
from pathlib import Path
from shard.store.environment import Environment
from shard.contents.errors import StoreError
environment = Environment(Path(sys.argv[1]), ("index", "contents"), 1 << 24, synced=True)
for line in sys.stdin:
    command, number = json.loads(line)
    try:
        if command == "write":
            def put(txn):
                for part in range(20):
                    txn.put(b"%d.%d" % (number, part), bytes(3000), db=environment["contents"])
                txn.put(b"%d" % number, b"", db=environment["index"])
            environment.write(put)
            answer = "written"
        else:
            with environment.reading("index") as txn:
                answer = sorted(int(bytes(key)) for key, _ in txn.cursor(environment["index"]))
    except StoreError as error:
        answer = [error.reason]
    print(json.dumps(answer), flush=True)
"""


@contextmanager
def program(disk: Disk) -> Iterator[Any]:
    """Yield a function that has a process on this disk execute a command; kill the process at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(disk.root / "store")],
        env={**os.environ, **disk.environment},
        cwd=Path(__file__).resolve().parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def call(command: str, number: int = 0) -> Any:
            assert process.stdin and process.stdout
            print(json.dumps([command, number]), file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())

        try:
            yield call
        finally:
            process.kill()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize(
    "calls",
    [Calls.WRITE, Calls.SYNC, Calls.WRITE | Calls.SYNC | Calls.RESIZE | Calls.OPEN],
    ids=["write", "sync", "all"],
)
def test_trouble_passes(tmp_path: Path, error: int, calls: Calls) -> None:
    (tmp_path / "data").mkdir()
    disk = Disk(tmp_path / "data", tmp_path / "disk")
    written = []
    with program(disk) as call:
        for number in range(5):
            assert call("write", number) == "written"
            written.append(number)
        with disk.trouble(error, calls):
            for attempt in range(3):
                assert call("write", 100 + attempt) == [os.strerror(error)]
                assert call("read") == written
        assert call("write", 5) == "written"
        written.append(5)
        assert call("read") == written
    disk.cut(random.Random(error))
    kept(disk, written)


@pytest.mark.parametrize("seed", range(4))
def test_trouble_now_and_then(tmp_path: Path, seed: int) -> None:
    """Whichever call fails, data reported as written survives a power cut, and none survives in part."""
    (tmp_path / "data").mkdir()
    disk = Disk(tmp_path / "data", tmp_path / "disk")
    chance = random.Random(seed)
    written, refused = [], []
    with program(disk) as call:
        assert call("read") == []
        for number in range(60):
            calls = chance.choice(
                [Calls.WRITE, Calls.SYNC, Calls.WRITE | Calls.SYNC, Calls.SHORT, Calls.OPEN | Calls.SYNC]
            )
            with disk.trouble(chance.choice([errno.ENOSPC, errno.EIO]), calls, one_in=chance.choice([1, 2, 5])):
                if call("write", number) == "written":
                    written.append(number)
                else:
                    refused.append(number)
            assert set(call("read")) >= set(written)
    assert written and refused
    disk.cut(chance)
    kept(disk, written)


def kept(disk: Disk, written: list[int]) -> None:
    """Check that each of these is there, and that everything there is whole."""
    with lmdb.open(str(disk.root / "store"), max_dbs=2, map_size=1 << 26) as environment:
        index, contents = (environment.open_db(name) for name in (b"index", b"contents"))
        with environment.begin() as txn:
            there = {int(key) for key in txn.cursor(index).iternext(values=False)}
            parts = {bytes(key) for key in txn.cursor(contents).iternext(values=False)}
    assert there >= set(written)
    assert parts == {b"%d.%d" % (number, part) for number in there for part in range(20)}


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="Not a directory") as caught:
        Environment(tmp_path / "file" / "store", ("index",), 1 << 20, synced=True)
    assert caught.value.reason == "Not a directory"
