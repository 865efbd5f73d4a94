"""The deadline queue, against a plain table of times."""

from __future__ import annotations

import gc
import weakref

from hypothesis import given
from hypothesis import strategies as st

from acceptor.gates.deadline_queue import SPARE, DeadlineQueue

STEPS = st.lists(st.tuples(st.sampled_from(["put", "discard", "take"]), st.integers(0, 5), st.integers(0, 20)))


@given(STEPS)
def test_each_is_due_once_at_its_latest_time(steps: list[tuple[str, int, int]]) -> None:
    due: DeadlineQueue[int] = DeadlineQueue()
    times: dict[int, int] = {}
    for step, who, when in steps:
        if step == "put":
            due.put(who, when)
            times[who] = when
        elif step == "discard":
            due.discard(who)
            times.pop(who, None)
        else:
            found = due.pop_due(when)
            assert sorted(found) == sorted(who for who in times if times[who] <= when)
            came = [times.pop(who) for who in found]
            assert came == sorted(came)
    assert len(due) == len(times)


def test_what_is_put_off_again_and_again_takes_no_memory() -> None:
    due: DeadlineQueue[str] = DeadlineQueue()
    for when in range(10_000):
        due.put("a", when)
    assert len(due._heap) <= 2 * len(due) + SPARE
    assert due.pop_due(9_998.0) == []
    assert due.pop_due(9_999.0) == ["a"]


class Someone:
    pass


def test_who_is_taken_out_is_forgotten_at_once() -> None:
    """A connection that is gone must not be kept, with all that was read from it, until its deadline."""
    due: DeadlineQueue[Someone] = DeadlineQueue()
    someone = Someone()
    gone = weakref.ref(someone)
    for when in (1.0, 3.0, 2.0):
        due.put(someone, when)
    due.discard(someone)
    del someone
    gc.collect()
    assert gone() is None and due.pop_due(5.0) == []


def test_who_is_due_is_known() -> None:
    due: DeadlineQueue[str] = DeadlineQueue()
    due.put("a", 1.0)
    due.put("b", 2.0)
    due.discard("b")
    assert "a" in due and "b" not in due
    due.pop_due(1.0)
    assert "a" not in due
