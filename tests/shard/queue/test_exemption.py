"""Queues exempt from holding producers as their marks say."""

from __future__ import annotations

from tests.shard.making import BESIDE, batch_of, queue_of


def test_a_queue_that_is_fed_drops_but_does_not_stand_aside() -> None:
    queue = queue_of()
    queue.enqueue(batch_of(*[b""] * 4), 0, 4, 0)
    queue.exemption.fed = "a binding"
    queue.drop_excess(2 * BESIDE)
    assert (queue.depth, queue.stands_aside) == (2, False)
    queue.exemption.yields = True
    assert queue.stands_aside
