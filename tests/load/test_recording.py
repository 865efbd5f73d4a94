from __future__ import annotations

import pytest

from load.recording import Recording, Sample, Span


def recording(*rows: tuple[float, int, bool, int, int, str, int]) -> Recording:
    return Recording(stop_count=80, resume_count=60, samples=[Sample(*row) for row in rows])


SEEN = recording(
    (0.0, 0, False, 0, 0, "", 6),
    (0.3, 81, True, 100, 19, "confirms withheld", 7),
    (0.6, 70, True, 100, 30, "confirms withheld", 7),
    (0.9, 60, False, 100, 42, "", 8),
    (1.2, 90, True, 150, 60, "Channel.Flow", 9),
    (1.5, 95, True, 150, 66, "", 11),
)


def test_spans_reach_from_stop_to_resume() -> None:
    """A resume that no sample shows is known by the epoch; the last span still lasts."""
    spans = [Span(0.3, 0.9, 81, 60), Span(1.2, 1.5, 90, 95), Span(1.5, 1.5, 95, 95)]
    assert list(SEEN.saturated_spans()) == spans
    assert SEEN.stops == 3


def test_rates_are_those_of_the_time_before() -> None:
    assert SEEN.rates() == pytest.approx((0.0, 20.0))
    assert SEEN.rates(1.2) == pytest.approx((50 / 0.3, 60.0))
    assert SEEN.rates(0.0) == (0.0, 0.0)


def test_what_is_told_of_the_whole() -> None:
    assert SEEN.deepest == 95
    assert SEEN.held_seconds() == pytest.approx(0.9)


def test_nothing_seen_yet() -> None:
    empty = Recording()
    assert (empty.deepest, empty.stops, empty.rates(), empty.held_seconds()) == (0, 0, (0, 0), 0)
    assert list(empty.saturated_spans()) == []
