"""The rate of a relay."""

from __future__ import annotations

from ops.relay.token_bucket import TokenBucket


def test_without_a_rate_there_is_always_a_token() -> None:
    bucket = TokenBucket(None, 0.0)
    assert all(bucket.spend(0.0) for _ in range(1000))


def test_tokens_come_at_the_rate_and_gather_for_a_tenth_of_a_second() -> None:
    bucket = TokenBucket(100.0, 0.0)
    assert sum(bucket.spend(0.0) for _ in range(100)) == 10
    assert bucket.next_at() == 0.01
    assert bucket.spend(0.01) and not bucket.spend(0.01)
    assert sum(bucket.spend(60.0) for _ in range(100)) == 10


def test_a_rate_below_one_a_second_has_whole_tokens() -> None:
    bucket = TokenBucket(0.5, 0.0)
    assert bucket.spend(0.0) and not bucket.spend(1.0)
    assert bucket.next_at() == 2.0 and bucket.spend(2.0)
