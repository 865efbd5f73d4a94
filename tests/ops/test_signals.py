"""The supervisor's signals: any makes the descriptor readable, requests are kept, and old handlers are restored."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from ops.signals import STOPPING, Signals

WATCHED = (*STOPPING, signal.SIGHUP, signal.SIGCHLD)


def is_readable(signals: Signals) -> bool:
    return bool(select.select([signals], [], [], 0)[0])


def send(number: signal.Signals) -> None:
    """Send a signal to this process; its handler has run when this returns."""
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", STOPPING)
def test_a_request_to_stop_is_kept(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with Signals() as signals:
            assert not is_readable(signals) and not signals.stop
            send(number)
            assert is_readable(signals) and signals.stop
            signals.drain()
            assert not is_readable(signals) and signals.stop and not signals.reload
    finally:
        signal.signal(number, before)


def test_a_request_to_reload_stays_until_it_is_reset() -> None:
    with Signals() as signals:
        send(signal.SIGHUP)
        assert is_readable(signals) and signals.reload and not signals.stop
        signals.reload = False
        send(signal.SIGHUP)
        assert signals.reload


def test_a_child_that_ends_makes_it_readable() -> None:
    with Signals() as signals:
        subprocess.run([sys.executable, "-c", ""], check=True)
        assert is_readable(signals)
        assert not signals.stop and not signals.reload


def test_drain_discards_all_and_does_not_wait_for_more() -> None:
    with Signals() as signals:
        signals.drain()
        for _ in range(5000):
            send(signal.SIGHUP)
        signals.drain()
        assert not is_readable(signals)


def test_what_is_ignored_stays_so() -> None:
    """A background job of a shell ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Signals() as signals:
            send(signal.SIGINT)
            assert not signals.stop and not is_readable(signals)
    finally:
        signal.signal(signal.SIGINT, before)


def test_handlers_and_wakeup_descriptor_are_restored() -> None:
    handlers = [signal.getsignal(number) for number in WATCHED]
    descriptor = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(descriptor)
    with Signals():
        assert [signal.getsignal(number) for number in WATCHED] != handlers
    assert [signal.getsignal(number) for number in WATCHED] == handlers
    assert signal.set_wakeup_fd(descriptor) == descriptor
