"""Leases: the record of one in the store, and the first of several to expire."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shard.contents.queue_cy import NEVER
from shard.queue.lease import Lease, first_held, next_expiry
from shard.store.stored import unpack_held

LASTS = 60_000_000


def lease_of(*runs: tuple[int, int], until: int = NEVER) -> Lease:
    """Return a lease of these runs of messages."""
    lease = Lease("id", LASTS)
    lease.until = until
    for sequence, count in runs:
        lease.held.add(sequence, count)
    return lease


@given(until=st.just(NEVER) | st.integers(0, 1 << 60), numbers=st.sets(st.integers(0, 40) | st.just(1 << 60)))
def test_the_record_has_all_messages_of_the_lease(until: int, numbers: set[int]) -> None:
    lease = lease_of(*((number, 1) for number in numbers), until=until)
    lasts, kept_until, runs = unpack_held(lease.record())
    assert (lasts, kept_until) == (LASTS, until)
    assert [number for start, count in runs for number in range(start, start + count)] == sorted(numbers)


def test_a_lease_that_holds_nothing_has_a_record_all_the_same() -> None:
    """A lease exists until it is ended or expires."""
    assert unpack_held(lease_of().record()) == (LASTS, NEVER, [])


def test_the_first_lease_that_expires_is_the_next() -> None:
    leases = {str(until): lease_of(until=until) for until in (NEVER, 700, 500, 600)}
    assert next_expiry(leases) == 500
    assert next_expiry({"has a consumer": lease_of((1, 2))}) == NEVER
    assert next_expiry({}) == NEVER


def test_the_first_messages_are_those_of_leases_that_hold_some() -> None:
    leases = {"some": lease_of((30, 2), (10, 5)), "none": lease_of(), "one": lease_of((5, 1))}
    assert first_held(leases) == [10, 5]
