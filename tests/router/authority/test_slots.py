"""Slots of the gauges: each is given once, all are used, and another shard gets one only in need."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from router.authority.slots import Slots


@given(
    st.integers(1, 4),
    st.integers(1, 12),
    st.lists(st.tuples(st.booleans(), st.integers(0, 3))),
    st.data(),
)
def test_every_slot_is_taken_once(first: int, count: int, acts: list[tuple[bool, int]], data: st.DataObject) -> None:
    every = range(first, first + count)
    taken = dict.fromkeys(data.draw(st.sets(st.sampled_from(every))), 0)
    slots = Slots(every, set(taken))
    for take, shard in acts:
        if take:
            slot = slots.allocate(shard)
            assert (slot is None) is (len(taken) == count)
            if slot is not None:
                assert slot in every and slot not in taken
                taken[slot] = shard
        elif taken:
            slot = data.draw(st.sampled_from(sorted(taken)))
            slots.free(slot, taken.pop(slot))


def test_a_freed_slot_stays_with_its_shard_while_there_are_others() -> None:
    slots = Slots(range(2, 5), ())
    assert slots.allocate(0) == 2
    slots.free(2, 0)
    assert [slots.allocate(1), slots.allocate(0), slots.allocate(1)] == [3, 2, 4]
    slots.free(2, 0)
    assert slots.allocate(1) == 2
    assert slots.allocate(1) is None


def test_slots_that_shards_may_still_close_come_last() -> None:
    slots = Slots(range(2, 8), {3}, {2, 3, 5})
    assert [slots.allocate(0) for _ in range(6)] == [6, 7, 4, 2, 5, None]
