"""Compaction of a store: nothing is lost, and a copy that fails leaves the store as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.errors import CommandError
from ops.store.check import check
from ops.store.compact import compact
from shard.contents.queue_cy import UNLIMITED, Queue
from shard.store.journal import Journal
from shard.store.store import Store
from tests.ops.store.making import LIMIT, fill


def emptied(path: Path, keep: int) -> None:
    """Settle all messages of queue 7 but the last few."""
    store = Store(path, LIMIT, False, 1)
    journal = Journal(store.read)
    queue = Queue(7, None, 1 << 36, journal, True)
    queue.recover([segment for id, segment in store.segments() if id == 7], {})
    for item in queue.pop(queue.ready - keep, UNLIMITED, False):
        queue.settle(item.sequence, item.count)
    store.write(journal.hand_over())
    store.close()


def test_the_file_gives_back_what_was_free(tmp_path: Path) -> None:
    path = fill(tmp_path, 0, {7: 30_000, 8: 5})
    emptied(path, 10)
    gain = compact(path, 0)
    assert gain.before > 10 * gain.after
    assert gain.after == (path / "data.mdb").stat().st_size
    assert (path / "data.mdb").stat().st_mode & 0o777 == 0o600
    assert not (path / "compacting").exists()
    found = check(path, 0)
    assert (found.queues, found.messages, found.problems) == (2, 15, 0)
    store = Store(path, LIMIT, False, 1)
    assert store.starts == 3
    store.close()


def test_what_a_run_that_was_cut_short_left_is_no_hindrance(tmp_path: Path) -> None:
    path = fill(tmp_path, 0, {7: 5})
    (path / "compacting").mkdir()
    (path / "compacting" / "data.mdb").write_bytes(b"x" * 100)
    compact(path, 0)
    assert check(path, 0).messages == 5


def test_a_copy_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = fill(tmp_path, 0, {7: 5})
    content = (path / "data.mdb").read_bytes()
    with pytest.raises(CommandError, match="it is the store of shard 0"):
        compact(path, 1)
    assert (path / "data.mdb").read_bytes() == content
    assert not (path / "compacting").exists()
    (path / "data.mdb").write_bytes(b"x" * 9000)
    with pytest.raises(CommandError, match=f"^{path}: "):
        compact(path, 0)
    assert not (path / "compacting").exists()
