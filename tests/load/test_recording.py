from __future__ import annotations

import pytest

from load.recording import Recording, Sample, Span


def recording(*rows: tuple[float, int, bool, int, int, str]) -> Recording:
    return Recording(stop_count=80, resume_count=60, samples=[Sample(*row) for row in rows])


SEEN = recording(
    (0.0, 0, False, 0, 0, ""),
    (0.5, 81, True, 100, 19, "confirms withheld"),
    (1.0, 70, True, 100, 30, "confirms withheld"),
    (1.5, 60, False, 100, 40, ""),
    (2.0, 90, True, 150, 60, "Channel.Flow"),
    (2.5, 85, True, 150, 65, ""),
)


def test_spans_reach_from_stop_to_resume() -> None:
    """The one that still lasts is taken to end with the latest sample."""
    assert list(SEEN.saturated_spans()) == [Span(0.5, 1.5, 81, 60), Span(2.0, 2.5, 90, 85)]


def test_rates_are_those_of_the_last_half_second() -> None:
    assert SEEN.rates() == (0.0, 10.0)
    assert SEEN.rates(2.0) == (100.0, 40.0)
    assert SEEN.rates(0.0) == (0.0, 0.0)


def test_what_is_told_of_the_whole() -> None:
    assert SEEN.deepest == 90
    assert SEEN.held_seconds() == pytest.approx(1.5)


def test_nothing_seen_yet() -> None:
    empty = Recording()
    assert (empty.deepest, empty.rates(), empty.held_seconds(), list(empty.saturated_spans())) == (0, (0, 0), 0, [])
