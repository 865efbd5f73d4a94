"""The test disk loses unflushed data and nothing else, and refuses calls on request: tried with LMDB and SQLite."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from tests.faults.disk import CUT_OFF, RANGE, Calls, Disk, after_cut

pytestmark = pytest.mark.long

PLAIN = """
import os, sys
fd = os.open(sys.argv[1] + "/file", os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b"a" * 8192, 0)
os.fdatasync(fd)
os.pwrite(fd, b"b" * 8192, 4096)
os.writev(fd, [b"c" * 512])
print("written", flush=True)
sys.stdin.read()
"""
THROUGH = """
import os, sys
fd = os.open(sys.argv[1] + "/file", os.O_RDWR | os.O_CREAT)
through = os.open(sys.argv[1] + "/file", os.O_RDWR | os.O_DSYNC)
os.pwrite(fd, b"a" * 512, 0)
os.pwrite(through, b"b" * 512, 512)
print("written", flush=True)
sys.stdin.read()
"""
LMDB = """
import lmdb, sys
environment = lmdb.open(sys.argv[1], map_size=1 << 24, sync=sys.argv[2] == "sync")
for number in range(1_000_000):
    with environment.begin(write=True) as transaction:
        for part in range(4):
            transaction.put(b"%d.%d" % (number, part), bytes(700 * part))
        if number > 20:
            for part in range(4):
                transaction.delete(b"%d.%d" % (number - 20, part))
    print(number, flush=True)
"""
SQLITE = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1] + "/database", isolation_level=None)
database.execute("PRAGMA journal_mode = WAL")
database.execute("PRAGMA synchronous = " + ("FULL" if sys.argv[2] == "sync" else "OFF"))
database.execute("PRAGMA wal_autocheckpoint = 20")
database.execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER PRIMARY KEY, filling BLOB)")
start = database.execute("SELECT coalesce(max(number) + 1, 0) FROM numbers").fetchone()[0]
for number in range(start, 1_000_000):
    database.execute("INSERT INTO numbers VALUES (?, ?)", (number, bytes(number % 3000)))
    print(number, flush=True)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    (tmp_path / "data").mkdir()
    return Disk(tmp_path / "data", tmp_path / "disk")


def started(disk: Disk, program: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(disk.root), *arguments],
        env={**os.environ, **disk.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def killed_after(disk: Disk, lines: int, program: str, *arguments: str) -> bytes:
    """Kill a program some time after it has written `lines` lines; return its last line."""
    with started(disk, program, *arguments) as process:
        assert process.stdout
        for _ in range(lines):
            line = process.stdout.readline()
            assert line, "it ended by itself"
        process.send_signal(signal.SIGKILL)
        left = process.stdout.read().rpartition(b"\n")[0]
        return left.splitlines()[-1] if left else line.strip()


def test_what_was_not_flushed(disk: Disk) -> None:
    """Everything up to the flush is kept; later writes are kept or lost at random, sector by sector."""
    assert killed_after(disk, 1, PLAIN) == b"written"
    file = disk.root / "file"
    live = file.read_bytes()
    assert live == b"c" * 512 + b"a" * 3584 + b"b" * 8192
    seen = set()
    for seed in range(60):
        file.write_bytes(live)
        kept = {path: path.read_bytes() for path in disk.images.iterdir()}
        disk.cut(random.Random(seed))
        content = file.read_bytes()
        seen.add(content)
        assert content[512:4096] == b"a" * 3584
        assert content[:512] in (b"c" * 512, b"a" * 512)
        assert set(content[4096:8192]) <= set(b"ab") and set(content[8192:]) <= set(b"b\0")
        for path, nbytes in kept.items():
            path.write_bytes(nbytes)
    assert b"a" * 8192 in seen and live in seen and len(seen) > 10


def test_written_through(disk: Disk) -> None:
    """O_DSYNC flushes the writes through it, and nothing else."""
    killed_after(disk, 1, THROUGH)
    live = (disk.root / "file").read_bytes()
    assert live == b"a" * 512 + b"b" * 512
    image = (disk.images / "file.image").read_bytes()
    assert image == bytes(512) + b"b" * 512


def test_cutting_off_may_not_have_happened_yet() -> None:
    journal = RANGE.pack(2, CUT_OFF)
    found = {after_cut(b"abcd", b"ab", journal, random.Random(seed)) for seed in range(40)}
    assert found == {b"abcd", b"ab"}


@pytest.mark.parametrize("seed", range(3))
def test_lmdb_keeps_what_it_committed(disk: Disk, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(3):
        last = int(killed_after(disk, chance.randrange(30, 200), LMDB, "sync"))
        disk.cut(chance)
        with lmdb.open(str(disk.root), map_size=1 << 24) as environment, environment.begin() as transaction:
            numbers = {int(key.partition(b".")[0]) for key in transaction.cursor().iternext(values=False)}
            assert transaction.stat()["entries"] == 4 * len(numbers)
        assert max(numbers) in (last, last + 1)
        for file in disk.root.iterdir():
            file.unlink()
        for kept in disk.images.iterdir():
            kept.unlink()


@pytest.mark.parametrize("seed", range(3))
def test_sqlite_keeps_what_it_committed(disk: Disk, seed: int) -> None:
    chance = random.Random(seed)
    count = 0
    for _ in range(3):
        last = int(killed_after(disk, chance.randrange(10, 100), SQLITE, "sync"))
        disk.cut(chance)
        with started(disk, SQLITE, "sync") as process:
            assert process.stdout
            count = int(process.stdout.readline())
            process.kill()
        assert count in (last + 1, last + 2)
        disk.cut(chance)


@pytest.mark.parametrize(("program", "lines"), [(LMDB, 60), (SQLITE, 60)])
def test_they_lose_what_they_do_not_flush(disk: Disk, program: str, lines: int) -> None:
    """Without flushes data is lost; otherwise the tests above would show nothing."""
    killed_after(disk, lines, program, "no sync")
    assert any(path.stat().st_size for path in disk.images.glob("*.dirty"))
    flushed = sum(path.stat().st_size for path in disk.images.glob("*.image"))
    assert flushed < sum(path.stat().st_size for path in disk.root.iterdir()) / 2


REFUSED = """
import os, sys
fd = os.open(sys.argv[1] + "/file", os.O_RDWR | os.O_CREAT)
calls = {
    "write": lambda: os.write(fd, b"x" * 10), "pwrite": lambda: os.pwrite(fd, b"x" * 10, 0),
    "writev": lambda: os.writev(fd, [b"x" * 10]), "pwritev": lambda: os.pwritev(fd, [b"x" * 10], 0),
    "fsync": lambda: os.fsync(fd), "fdatasync": lambda: os.fdatasync(fd),
    "ftruncate": lambda: os.ftruncate(fd, 100), "fallocate": lambda: os.posix_fallocate(fd, 0, 100),
    "open": lambda: os.close(os.open(sys.argv[1] + "/file", os.O_RDWR)),
    "read only": lambda: os.close(os.open(sys.argv[1] + "/file", os.O_RDONLY)),
}
print("ready", flush=True)
for line in sys.stdin:
    outcomes = []
    for name, call in calls.items():
        try:
            result = call()
        except OSError as error:
            result = error.errno
        outcomes.append(f"{name}: {result or 0}")
    print("; ".join(outcomes), flush=True)
"""


def test_refusals(disk: Disk) -> None:
    """Each kind of call fails with the chosen errno, for the chosen time, and only on this disk."""
    with started(disk, REFUSED) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == b"ready\n"

        def outcomes() -> dict[str, int]:
            assert process.stdin and process.stdout
            process.stdin.write(b"go\n")
            process.stdin.flush()
            parts = process.stdout.readline().decode().strip().split("; ")
            return {name: int(result) for name, _, result in (part.partition(": ") for part in parts)}

        quiet = outcomes()
        assert set(quiet.values()) == {0, 10}
        for calls, names in {
            Calls.WRITE: {"write", "pwrite", "writev", "pwritev"},
            Calls.SYNC: {"fsync", "fdatasync"},
            Calls.RESIZE: {"ftruncate", "fallocate"},
            Calls.OPEN: {"open"},
        }.items():
            with disk.trouble(errno.ENOSPC, calls):
                assert outcomes() == {**quiet, **dict.fromkeys(names, errno.ENOSPC)}
            assert outcomes() == quiet
        with disk.trouble(errno.EIO, Calls.SHORT):
            assert outcomes() == {**quiet, "write": 5, "pwrite": 5}
        assert disk.hits == 4 + 2 + 2 + 1 + 4
        process.stdin.close()


def test_a_flush_that_fails_leaves_nothing_to_flush(disk: Disk) -> None:
    """Pages that could not be written count as clean: their contents are lost, although the next flush succeeds."""
    program = """
import os, sys
fd = os.open(sys.argv[1] + "/file", os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b"a" * 512, 0)
os.fsync(fd)
os.pwrite(fd, b"b" * 512, 0)
print("written", flush=True)
sys.stdin.readline()
try:
    os.fsync(fd)
except OSError as error:
    print("failed", error.errno, flush=True)
sys.stdin.readline()
os.pwrite(fd, b"c" * 512, 512)
os.fsync(fd)
print("flushed", flush=True)
"""
    with started(disk, program) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == b"written\n"
        with disk.trouble(errno.EIO, Calls.SYNC):
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"failed %d\n" % errno.EIO
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"flushed\n"
    disk.cut(random.Random(0))
    assert (disk.root / "file").read_bytes() == b"a" * 512 + b"c" * 512
