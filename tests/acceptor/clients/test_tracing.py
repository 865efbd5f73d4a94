"""The sample of publishes that are traced."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acceptor.clients.tracing import MOST_PER_SECOND, Sample


@given(st.lists(st.integers(1, 50), max_size=20), st.sampled_from([1.0, 0.5, 0.1]))
def test_a_sample_passes_each_message_once(counts: list[int], ratio: float) -> None:
    sample = Sample(ratio, lambda: 0.0)
    taken = 0
    for count in counts:
        left = count
        while (index := sample.next_of(left)) is not None:
            assert 0 <= index < left
            left -= index + 1
            taken += 1
    assert taken <= min(sum(counts), MOST_PER_SECOND)
    if ratio == 1:
        assert taken == min(sum(counts), MOST_PER_SECOND)


def test_each_message_is_as_likely_as_the_others() -> None:
    """Whatever the batches are: a thousandth of a million, within seven standard deviations."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1
        return now

    sample = Sample(0.001, clock)
    places = []
    for batch in range(1_000):
        left = 1_000
        while (index := sample.next_of(left)) is not None:
            places.append(1_000 * batch + 1_000 - left + index)
            left -= index + 1
    assert abs(len(places) - 1_000) < 7 * 32
    even = sum(place % 2 == 0 for place in places)
    assert abs(even - len(places) / 2) < 7 * 16


def test_a_second_has_its_most_and_the_next_one_again() -> None:
    now = 0.0
    sample = Sample(1.0, lambda: now)

    def taken() -> int:
        return sum(sample.next_of(1) is not None for _ in range(3 * MOST_PER_SECOND))

    assert taken() == MOST_PER_SECOND
    now = 1.0
    assert taken() == MOST_PER_SECOND
