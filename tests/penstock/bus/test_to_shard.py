"""Operations that a shard receives: the sets of requests that processes distinguish."""

from __future__ import annotations

from penstock.bus import to_shard
from penstock.bus.operations_cy import Operation


def having(field: str) -> set[type[Operation]]:
    """Return the requests that have a field."""
    return {kind for kind in to_shard.Request.__args__ if field in kind.__annotations__}


def test_requests_of_one_queue_are_those_with_a_queue() -> None:
    assert {*to_shard.OF_QUEUE.__args__} == having("queue")


def test_requests_that_leave_something_in_a_group_are_those_with_a_group() -> None:
    assert {*to_shard.LEAVES_IN_GROUP.__args__} == having("group")
