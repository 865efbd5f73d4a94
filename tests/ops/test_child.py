"""A place in the node, apart from the processes that fill it: when the next one starts, what is said of the last."""

from __future__ import annotations

import signal

from ops.backoff import FIRST_DELAY, LONGEST_DELAY, STEADY_SECONDS, Backoff
from ops.child import how_it_ended


def test_delays_between_restarts() -> None:
    backoff = Backoff()
    assert [backoff.after(0.5) for _ in range(5)] == [0.0, 0.1, 0.2, 0.4, 0.8]
    assert [backoff.after(0.5) for _ in range(2000)][-1] == LONGEST_DELAY
    assert backoff.after(STEADY_SECONDS) == 0.0
    assert backoff.after(0.5) == FIRST_DELAY


def test_ends_are_named() -> None:
    assert how_it_ended(1) == "exit status 1"
    assert how_it_ended(-signal.SIGSEGV) == "killed by SIGSEGV"
    assert how_it_ended(-63) == "killed by signal 63"
