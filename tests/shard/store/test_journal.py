"""The journal: changes are gathered into one commit, and those of a failed commit go into the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.batch.batch_cy import Batch
from shard.contents.queue_cy import UNLIMITED
from shard.contents.segment_cy import Segment
from shard.store.journal import Commit, Journal
from shard.store.stored import KEY, pack_segment
from tests.shard.store.test_store import OpenedStore, batch, bodies


def test_what_is_gone_before_it_was_handed_over_is_never_written(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.enqueue(batch(b"a"), 0, 1)
    (item,) = opened.queue.pop(1, UNLIMITED, False)
    opened.queue.settle(item.sequence, 1)
    commit = opened.journal.hand_over()
    assert not commit.kept.index
    assert not commit.kept.contents
    opened.end()


def test_settled_segments_leave_the_store(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.enqueue(batch(*[b"x" * 100] * 50), 0, 50)
    opened.commit()
    assert opened.journal.nbytes > 5000
    (item,) = opened.queue.pop(50, UNLIMITED, False)
    opened.queue.settle(item.sequence, 50)
    opened.commit()
    assert opened.journal.nbytes == 0
    assert list(opened.store.segments()) == []
    opened.end()


def test_transient_messages_are_not_written(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.enqueue(batch(b"a", flags=0), 0, 1)
    assert opened.journal.is_empty()
    opened.end()


def test_a_commit_that_was_not_written_gathers_with_what_came_since(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.enqueue(batch(b"old", b"older"), 0, 2)
    opened.commit()
    for body in (b"gone", b"stays"):
        opened.queue.enqueue(batch(body), 0, 1)
    opened.queue.settle(opened.queue.pop(1, UNLIMITED, False)[0].sequence, 1)
    failed = opened.journal.hand_over()
    nbytes = opened.journal.nbytes
    taken = opened.queue.pop(2, UNLIMITED, False)
    assert [item.count for item in taken] == [1, 1]
    for item in taken:
        opened.queue.settle(item.sequence, 1)
    opened.queue.enqueue(batch(b"new"), 0, 1)
    opened.journal.take_back(failed)
    commit = opened.journal.hand_over()
    assert sum(parts is not None for parts in commit.kept.contents.values()) == 2
    assert opened.journal.nbytes < nbytes
    opened.store.write(commit)
    opened.end()
    opened = OpenedStore(tmp_path)
    assert [body for body, _ in bodies(opened.queue)] == [b"stays", b"new"]
    opened.end()


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_being_written_stays_in_memory(tmp_path: Path, fails: bool) -> None:
    """Until the commit is written, the store could not return the contents."""
    opened = OpenedStore(tmp_path)
    first = opened.queue.enqueue(batch(b"a", b"b"), 0, 2)
    opened.queue.pop(1, UNLIMITED, False)
    commit = opened.journal.hand_over()
    assert opened.queue.page_out_front(UNLIMITED, 0, False) == 0
    assert opened.queue.page_out(UNLIMITED, 0) == 0
    if fails:
        opened.journal.take_back(commit)
        assert opened.queue.page_out_front(UNLIMITED, 0, False) == 0
        commit = opened.journal.hand_over()
    opened.queue.requeue(first, 1)
    assert [body for body, _ in bodies(opened.queue)] == [b"a", b"b"]
    opened.store.write(commit)
    opened.journal.written()
    assert opened.queue.page_out_front(UNLIMITED, 0, False) > 0
    opened.queue.requeue(first, 2)
    assert [body for body, _ in bodies(opened.queue)] == [b"a", b"b"]
    opened.end()


CHANGES = st.one_of(
    st.tuples(st.just("lease"), st.integers(0, 2), st.none() | st.integers(0, 9)),
    st.tuples(st.just("count"), st.integers(0, 2), st.integers(0, 3)),
    st.tuples(st.just("put_lease"), st.sampled_from("ab"), st.none() | st.binary(max_size=2)),
    st.tuples(st.just("link"), st.sampled_from((b"a", b"b")), st.none() | st.binary(max_size=2)),
    st.tuples(st.just("prepare"), st.sampled_from((b"a", b"b")), st.none() | st.binary(max_size=2)),
    st.tuples(st.just("decide"), st.sampled_from((b"a", b"b")), st.none() | st.binary(max_size=2)),
    st.tuples(st.just("fail"), st.none(), st.none()),
)


def change(journal: Journal, kind: str, key: Any, value: Any) -> None:
    match kind:
        case "lease" | "count" | "put_lease":
            getattr(journal, kind)(7, key, value)
        case "prepare":
            journal.prepare(key, value, 10)
        case _:
            getattr(journal, kind)(key, value)


@given(st.lists(CHANGES, max_size=30))
def test_commits_that_fail_change_nothing_of_what_is_written(changes: list[tuple[str, Any, Any]]) -> None:
    """A change may come before, during or after a failed commit: the latest of each key is written."""
    failing, plain = Journal(nothing), Journal(nothing)
    under_way: Commit | None = None
    for kind, key, value in changes:
        if kind != "fail":
            change(failing, kind, key, value)
            change(plain, kind, key, value)
        elif under_way is None:
            under_way = failing.hand_over()
        else:
            failing.take_back(under_way)
            under_way = None
    if under_way is not None:
        failing.take_back(under_way)
    assert failing.is_empty() == plain.is_empty() and failing.nbytes == plain.nbytes
    commit, expected = failing.hand_over(), plain.hand_over()
    for name in ("leases", "counts", "held", "links", "prepared", "decisions"):
        assert getattr(commit, name) == getattr(expected, name)
    assert commit.promises == expected.promises == bool(plain_changes(changes))
    assert failing.is_empty()


def plain_changes(changes: list[tuple[str, Any, Any]]) -> list[tuple[str, Any, Any]]:
    return [each for each in changes if each[0] != "fail"]


def nothing(key: bytes, count: int, spilled: bool) -> Batch:
    raise AssertionError("nothing is to be read")


def test_contents_wait_until_their_commit_is_written() -> None:
    journal, segment = Journal(nothing), Segment(batch(b"m"), 0, 1, 5)
    segment.stored = True
    assert not journal.waits(7, segment)
    journal.add(7, segment)
    assert journal.waits(7, segment) and not journal.waits(8, segment)
    commit = journal.hand_over()
    assert journal.waits(7, segment)
    journal.take_back(commit)
    assert journal.waits(7, segment)
    journal.hand_over()
    journal.written()
    assert not journal.waits(7, segment)


def test_a_damaged_segment_is_marked_and_stays_in_the_store() -> None:
    """Freeing the pages of a damaged segment could damage others."""
    journal, segment = Journal(nothing), Segment(None, 0, 3, 5)
    segment.nbytes, segment.stored, segment.damaged = 100, True, True
    journal.count_recovered(segment)
    assert journal.nbytes == 100
    journal.remove(7, segment)
    commit = journal.hand_over()
    assert commit.kept.index == {KEY.pack(7, 5): pack_segment(segment)} and not commit.kept.contents
    assert journal.nbytes == 0
