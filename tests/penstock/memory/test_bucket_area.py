"""Buckets in the gauges: all acceptors see what one spends."""

from __future__ import annotations

import pytest

from penstock.memory.gauges import Gauges

SECOND = 10**9


def test_what_is_spent_of_a_bucket_all_see(gauges: Gauges) -> None:
    assert gauges.bucket_full_at(7, 100) == (0, 0)
    gauges.bucket_spend(7, 100, count=3, rate=2, nbytes=5, bytes_rate=SECOND)
    with Gauges.open(gauges.path) as other:
        assert other.bucket_full_at(7, 120) == (100 + 3 * SECOND // 2, 105)
        other.bucket_spend(7, 120, count=10, rate=SECOND, nbytes=1, bytes_rate=0)
    assert gauges.bucket_full_at(7, 120) == (110 + 3 * SECOND // 2, 105)
    gauges.bucket_spend(7, 1000, count=1, rate=0, nbytes=1, bytes_rate=SECOND)
    assert gauges.bucket_full_at(7, 1000) == (110 + 3 * SECOND // 2, 1001), "a full bucket takes no more"


def test_whether_a_bucket_is_full_soon(gauges: Gauges) -> None:
    gauges.bucket_spend(7, 100, count=50, rate=SECOND, nbytes=5, bytes_rate=SECOND)
    assert gauges.bucket_is_full_in(7, 100, 50, 5)
    assert not gauges.bucket_is_full_in(7, 100, 49, 5)
    assert not gauges.bucket_is_full_in(7, 100, 50, 4)
    assert gauges.bucket_is_full_in(7, 101, 49, 4)


@pytest.mark.parametrize("rate", [1, 3, 7_919, 10**9, 2**63 - 1])
@pytest.mark.parametrize("nbytes", [0, 1, 131_072, 2**34 - 1])
def test_what_is_spent_is_rounded_down_once(gauges: Gauges, nbytes: int, rate: int) -> None:
    gauges.bucket_spend(7, 100, count=0, rate=0, nbytes=nbytes, bytes_rate=rate)
    assert gauges.bucket_full_at(7, 100) == (0, 100 + nbytes * SECOND // rate)


def test_what_waits_for_a_bucket(gauges: Gauges) -> None:
    assert gauges.bucket_waiting(5, 1000, 0, 3) == 3
    assert gauges.bucket_waiting(5, 1000, 7, 255) == 255 << 56 | 3
    with Gauges.open(gauges.path) as other:
        assert other.bucket_waiting(5, 1000, 0, 0) == 255 << 56
    assert gauges.bucket_waiting(6, 1000, 1, 1) == 1 << 8, "another bucket"
    for acceptor, code in ((8, 1), (0, 256)):
        with pytest.raises(ValueError, match="no octet"):
            gauges.bucket_waiting(5, 1000, acceptor, code)


def test_full_buckets_are_taken_over(gauges: Gauges) -> None:
    for key in range(7, 7 + 20 * 1024, 1024):
        assert gauges.bucket_full_at(key, key)[0] <= key
        gauges.bucket_spend(key, key, 10, SECOND, 0, 0)
        assert gauges.bucket_full_at(key, key)[0] == key + 10


def test_without_a_free_place_a_bucket_is_shared(gauges: Gauges) -> None:
    for key in range(1 + 1024, 1 + 17 * 1024, 1024):
        gauges.bucket_spend(key, 100, 1, 1, 0, 0)
    gauges.bucket_spend(1, 100, 5, SECOND, 0, 0)
    assert gauges.bucket_full_at(1, 100)[0] == 100 + SECOND + 5
