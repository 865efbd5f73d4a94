"""An environment flushed now and then, and power cuts: flushed data survives, and no transaction survives in part."""

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

import pytest

from tests.faults.disk import Calls, Disk

pytestmark = pytest.mark.long

PARTS = 20


WINDOW = 40


PROGRAM = """
import json, sys
from pathlib import Path
from shard.store.checkpoint import Checkpoint
from shard.store.checkpointed import Checkpointed
from shard.contents.errors import StoreError
path = Path(sys.argv[1])
checkpoint = Checkpoint(path)
checkpoint.restore()
environment = Checkpointed(path, ("numbers",), 1 << 20, checkpoint)
with environment.reading("numbers") as txn:
    numbers = {int(bytes(key).split(b".")[0]) for key, _ in txn.cursor(environment["numbers"])}
    entries = txn.stat(environment["numbers"])["entries"]
print(json.dumps([sorted(numbers), entries]), flush=True)
for line in sys.stdin:
    command, number = json.loads(line)
    def put(txn):
        for part in range(20):
            txn.put(b"%d.%d" % (number, part), bytes(700 * part), db=environment["numbers"])
            txn.delete(b"%d.%d" % (number - 40, part), db=environment["numbers"])
    try:
        environment.write(put) if command == "write" else environment.sync()
    except StoreError as error:
        print(json.dumps(error.reason), flush=True)
    else:
        print(json.dumps("done"), flush=True)
"""


@contextmanager
def program(disk: Disk) -> Iterator[tuple[list[int], Any]]:
    """Yield the stored numbers, and a function that has the process execute a command; kill the process at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(disk.root / "store")],
        env={**os.environ, **disk.environment},
        cwd=Path(__file__).resolve().parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout

        def call(command: str, number: int = 0) -> Any:
            print(json.dumps([command, number]), file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())

        try:
            numbers, entries = json.loads(process.stdout.readline())
            assert entries == PARTS * len(numbers), "a transaction that is there in part"
            yield numbers, call
        finally:
            process.kill()


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    (tmp_path / "data" / "store").mkdir(parents=True)
    return Disk(tmp_path / "data", tmp_path / "disk")


@pytest.mark.parametrize("seed", range(4))
def test_what_was_flushed_is_there_after_each_cut(disk: Disk, seed: int) -> None:
    """Nothing is lost if only the process dies."""
    chance = random.Random(seed)
    last = flushed = -1
    cut = False
    for _ in range(6):
        with program(disk) as (numbers, call):
            found = max(numbers, default=-1)
            assert flushed <= found <= last if cut else found == last
            assert numbers == list(range(max(found - WINDOW + 1, 0), found + 1))
            last = flushed = found  # opening it flushes
            for _ in range(chance.randrange(150)):
                assert call("write", last + 1) == "done"
                last += 1
                if chance.random() < 0.1:
                    assert call("sync") == "done"
                    flushed = last
        cut = chance.random() < 0.7
        if cut:
            disk.cut(chance)


@pytest.mark.parametrize("seed", range(3))
def test_what_a_flush_that_failed_lost_is_written_again(disk: Disk, seed: int) -> None:
    chance = random.Random(seed)
    with program(disk) as (_, call):
        for number in range(50):
            call("write", number)
        with disk.trouble(errno.EIO, Calls.SYNC):
            assert call("sync") == os.strerror(errno.EIO)
        for number in range(50, 60):
            call("write", number)
        assert call("sync") == "done"
        call("write", 60)
    disk.cut(chance)
    with program(disk) as (numbers, _):
        assert max(numbers) in (59, 60)


@pytest.mark.parametrize("seed", range(4))
def test_trouble_now_and_then(disk: Disk, seed: int) -> None:
    """Whichever call fails, flushed data survives a power cut, and no transaction survives in part."""
    chance = random.Random(seed)
    written, refused = 0, 0
    with program(disk) as (_, call):
        last, flushed = -1, -1
        for _ in range(80):
            calls = chance.choice([Calls.WRITE, Calls.SYNC, Calls.SHORT, Calls.OPEN, Calls.WRITE | Calls.OPEN])
            with disk.trouble(chance.choice([errno.ENOSPC, errno.EIO]), calls, one_in=chance.choice([1, 2, 5])):
                if call("write", last + 1) == "done":
                    last += 1
                    written += 1
                else:
                    refused += 1
                if chance.random() < 0.3 and call("sync") == "done":
                    flushed = last
    assert written and refused
    disk.cut(chance)
    with program(disk) as (numbers, call):
        found = max(numbers, default=-1)
        assert flushed <= found <= last + 1
        assert numbers == list(range(max(found - WINDOW + 1, 0), found + 1))
        assert call("write", found + 1) == "done"


def test_room_that_is_pinned_is_given_back_before_the_map_grows(disk: Disk) -> None:
    """Nothing is flushed while many times the size of the map is written."""
    with program(disk) as (_, call):
        for number in range(4000):
            assert call("write", number) == "done"
    assert (disk.root / "store" / "data.mdb").stat().st_size < 300 << 20
