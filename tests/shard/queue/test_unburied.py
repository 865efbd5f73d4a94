"""Dead letters of a queue that are not buried yet."""

from __future__ import annotations

from shard.queue.unburied import Unburied


def test_what_finds_no_room_is_a_state_not_a_sum() -> None:
    unburied = Unburied()
    unburied.burying = 2
    unburied.block(3, 30, 300)
    unburied.block(2, 20, 200)
    assert (unburied.count, unburied.nbytes, unburied.whole, unburied.burying) == (2, 20, 200, 2)
