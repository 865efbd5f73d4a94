"""A store is checked while somebody writes it: nothing is complained of that is whole, and nobody is disturbed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

from ops.store import check as checking
from ops.store.check import check
from ops.store.check_all import check_all
from ops.store.opened import opened
from shard.contents.errors import StoreError
from tests.ops.store.making import change, fill
from tests.ops.store.test_check import replaced

ROOT = Path(__file__).resolve().parents[3]
WRITER = """
import sys
from pathlib import Path
from penstock.batch.batch_cy import PERSISTENT, BatchBuilder
from shard.store.journal import Journal
from shard.contents.queue_cy import Queue, UNLIMITED
from shard.store.store import Store
from tests.ops.store.making import LIMIT, address, header
store = Store(Path(sys.argv[1]), LIMIT, False, 1)
journal = Journal(store.read)
queues = [Queue(id, None, store.life << 36, journal, True) for id in (7, 8, 100)]
number = 0
print("open", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        queue = queues[number % 3]
        builder = BatchBuilder()
        for _ in range(3):
            builder.add(address("", "q"), header(bytes(20_000)), bytes(20_000), PERSISTENT)
        queue.enqueue(builder.finish(), 0, 3)
        store.write(journal.hand_over())
        for item in queue.take(2, UNLIMITED, False):
            queue.settle(item.sequence, item.count)
        if queue.published > 30:
            for item in queue.take(4, UNLIMITED, False):
                queue.settle(item.sequence, item.count)
        store.write(journal.hand_over())
        store.sync()
        store.has_room(False)
        number += 1
    print("done", flush=True)
store.end()
"""
Write = Callable[[int], None]


@contextmanager
def written(path: Path) -> Iterator[Write]:
    """Somebody has the store open, and writes to it so many times when called."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdin and writer.stdout

        def write(times: int) -> None:
            print(times, file=writer.stdin, flush=True)
            assert writer.stdout and writer.stdout.readline() == "done\n"

        try:
            assert writer.stdout.readline() == "open\n"
            yield write
            writer.stdin.close()
            assert writer.wait() == 0
        finally:
            writer.kill()


def in_pieces(monkeypatch: pytest.MonkeyPatch, between: Callable[[], object]) -> list[int]:
    """Have a check let go after each record, and something done then; a number is added for each piece."""
    pieces: list[int] = []

    def let_go(live: bool) -> checking.Over:
        assert live
        pieces.append(1)
        between()
        return lambda: True

    monkeypatch.setattr(checking, "_snapshot_is_over", let_go)
    return pieces


def test_what_changes_between_two_pieces_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fill(tmp_path, 0, {7: 9, 8: 30, 9: 60})
    with written(path) as write:
        write(30)
        pieces = in_pieces(monkeypatch, lambda: write(1))
        found = check(path, 0, live=True)
    assert found.first_problems == []
    assert found.messages > 100
    assert len(pieces) > 40


def test_the_file_does_not_grow_as_long_as_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fill(tmp_path, 0, {9: 300})
    with written(path) as write:
        write(60)
        before = (path / "data.mdb").stat().st_size
        pieces = in_pieces(monkeypatch, lambda: write(2))
        assert check(path, 0, live=True).problems == 0
        assert (path / "data.mdb").stat().st_size - before < len(pieces) * 60_000 / 2


def test_damage_is_found(tmp_path: Path) -> None:
    path = fill(tmp_path, 0, {7: 10})
    change(path, replaced("contents", 67, b"y"))
    with written(path):
        found, problems = check_all(tmp_path, live=True)
    assert problems == []
    assert [text for each in found for text in each.first_problems] == [
        "queue 7, message 68719476736: its contents are damaged"
    ]


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


def readers(path: Path) -> str:
    with lmdb.open(str(path), readonly=True, create=False) as env:
        return str(env.readers())


def reading_pids(path: Path) -> set[int]:
    return {int(line.split()[0]) for line in readers(path).splitlines()[1:]}


def test_whoever_dies_of_a_damaged_file_pins_nothing(tmp_path: Path) -> None:
    path = fill(tmp_path, 0, {7: 3000})
    with written(path):
        whole = (path / "data.mdb").read_bytes()
        os.truncate(path / "data.mdb", 3 * 4096)
        (found,), _ = check_all(tmp_path, live=True)
        (path / "data.mdb").write_bytes(whole)
        assert "SIGBUS" in found.first_problems[0]
        assert all(Path(f"/proc/{pid}").exists() for pid in reading_pids(path))


def test_a_store_that_its_node_has_not_opened_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fill(tmp_path, 0, {7: 10})
    monkeypatch.setattr("shard.store.checkpoint.boot_id", lambda: "another boot")
    with pytest.raises(StoreError, match="the node has not opened it yet"), opened(path, 0, live=True):
        pass
