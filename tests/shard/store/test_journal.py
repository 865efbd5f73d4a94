"""The journal: changes are gathered into one commit, and those of a commit that fails come with the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from shard.contents.queue_cy import UNLIMITED
from tests.shard.store.test_store import Life, batch, bodies


def test_what_is_gone_before_it_was_handed_over_is_never_written(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.queue.enqueue(batch(b"a"), 0, 1)
    (item,) = life.queue.take(1, UNLIMITED, False)
    life.queue.settle(item.sequence, 1)
    commit = life.journal.hand_over()
    assert not commit.kept.index
    assert not commit.kept.contents
    life.end()


def test_settled_segments_leave_the_store(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.queue.enqueue(batch(*[b"x" * 100] * 50), 0, 50)
    life.commit()
    assert life.journal.octets > 5000
    (item,) = life.queue.take(50, UNLIMITED, False)
    life.queue.settle(item.sequence, 50)
    life.commit()
    assert life.journal.octets == 0
    assert list(life.store.segments()) == []
    life.end()


def test_transient_messages_are_not_written(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.queue.enqueue(batch(b"a", flags=0), 0, 1)
    assert not life.journal
    life.end()


def test_a_commit_that_was_not_written_gathers_with_what_came_since(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.queue.enqueue(batch(b"old", b"older"), 0, 2)
    life.commit()
    for body in (b"gone", b"stays"):
        life.queue.enqueue(batch(body), 0, 1)
    life.queue.settle(life.queue.take(1, UNLIMITED, False)[0].sequence, 1)
    failed = life.journal.hand_over()
    octets = life.journal.octets
    taken = life.queue.take(2, UNLIMITED, False)
    assert [item.count for item in taken] == [1, 1]
    for item in taken:
        life.queue.settle(item.sequence, 1)
    life.queue.enqueue(batch(b"new"), 0, 1)
    life.journal.take_back(failed)
    commit = life.journal.hand_over()
    assert sum(parts is not None for parts in commit.kept.contents.values()) == 2
    assert life.journal.octets < octets
    life.store.write(commit)
    life.end()
    life = Life(tmp_path)
    assert [body for body, _ in bodies(life.queue)] == [b"stays", b"new"]
    life.end()


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_being_written_stays_in_memory(tmp_path: Path, fails: bool) -> None:
    """Until the commit is there the store could not give it back."""
    life = Life(tmp_path)
    first = life.queue.enqueue(batch(b"a", b"b"), 0, 2)
    life.queue.take(1, UNLIMITED, False)
    commit = life.journal.hand_over()
    assert life.queue.page_out_front(UNLIMITED, 0, False) == 0
    assert life.queue.page_out(UNLIMITED, 0) == 0
    if fails:
        life.journal.take_back(commit)
        assert life.queue.page_out_front(UNLIMITED, 0, False) == 0
        commit = life.journal.hand_over()
    life.queue.requeue(first, 1)
    assert [body for body, _ in bodies(life.queue)] == [b"a", b"b"]
    life.store.write(commit)
    life.journal.written()
    assert life.queue.page_out_front(UNLIMITED, 0, False) > 0
    life.queue.requeue(first, 2)
    assert [body for body, _ in bodies(life.queue)] == [b"a", b"b"]
    life.end()
