"""The publishing rate of a channel over about the last ten seconds."""

from __future__ import annotations

import pytest

from acceptor.clients.pulse import LEAST, RECENT_SECONDS, Pulse


def test_a_steady_rate_is_found_and_ends_at_0() -> None:
    pulse = Pulse()
    for _ in range(100):
        pulse.count += 7
        pulse.tick()
    assert pulse.rate() == pytest.approx(7, rel=0.01)
    for _ in range(100):
        pulse.tick()
    assert pulse.rate() == 0


def test_publishes_of_the_present_second_count_at_once() -> None:
    pulse = Pulse()
    pulse.count += 20
    assert pulse.rate() == 20 / RECENT_SECONDS
    pulse.tick()
    assert pulse.rate() == 20 / RECENT_SECONDS


def test_a_count_decays_by_a_tenth_each_second_until_it_is_least() -> None:
    pulse = Pulse()
    pulse.count = 1
    pulse.tick()
    seen = []
    while pulse.recent:
        seen.append(pulse.recent)
        pulse.tick()
    assert seen == pytest.approx([0.9**second for second in range(len(seen))])
    assert seen[-1] >= LEAST > seen[-1] * 0.9
