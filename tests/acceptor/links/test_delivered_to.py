"""Consumers that a shard has delivered to, kept as long as its next incarnation may need them."""

from __future__ import annotations

from acceptor.links.delivered_to import FEWEST, DeliveredTo
from penstock.batch.consumer_ids import GETS


def test_they_are_named_with_queue_and_group() -> None:
    holders = DeliveredTo()
    holders.record(0x100, 7, 1)
    holders.record(GETS | 0x200, 8, 2)
    holders.record(0x300, 9, 3)
    assert holders.named([0x100, GETS | 0x200, 0x900]) == [[0x100, 7, 1, False], [GETS | 0x200, 8, 2, True]]


def test_once_they_are_many_those_that_are_needed_are_kept() -> None:
    holders = DeliveredTo()
    for id in range(FEWEST):
        holders.record(id, id, id)
    assert not holders.are_many()
    holders.record(FEWEST, 1, 1)
    assert holders.are_many()
    holders.keep([3, 5, FEWEST + 9])
    assert (set(holders.known), holders.are_many()) == ({3, 5}, False)
