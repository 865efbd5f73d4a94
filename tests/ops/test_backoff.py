"""The delay before a process that died is restarted: none at first, then doubled up to a bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ops.backoff import FIRST_DELAY, LONGEST_DELAY, STEADY_SECONDS, Backoff


def test_delays_between_restarts() -> None:
    backoff = Backoff()
    assert [backoff.after(0.5) for _ in range(5)] == [0.0, 0.1, 0.2, 0.4, 0.8]
    assert [backoff.after(0.5) for _ in range(2000)][-1] == LONGEST_DELAY
    assert backoff.after(STEADY_SECONDS) == 0.0
    assert backoff.after(0.5) == FIRST_DELAY


@given(st.lists(st.floats(0, 2 * STEADY_SECONDS)))
def test_delays_grow_until_a_process_has_run_steadily(times: list[float]) -> None:
    backoff, before = Backoff(), -1.0
    for lived in times:
        delay = backoff.after(lived)
        assert delay == 0.0 if lived >= STEADY_SECONDS else before <= delay <= LONGEST_DELAY
        before = delay
