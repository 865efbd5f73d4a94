"""A rolling restart: one place at a time, whose predecessor ends only once the successor is ready."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from structlog.testing import capture_logs

from ops.child import Child
from ops.forkserver import Forked
from ops.renewal import Renewal
from tests.waiting import wait_for

PATIENCE = 4.0
IGNORES = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"


@contextmanager
def place(index: int, program: str = "print(flush=True); import time; time.sleep(600)") -> Iterator[Child]:
    """Yield a place with a process that has begun."""
    child = Child("acceptor", index, 1)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        child.process = Forked(process.pid)
        try:
            yield child
        finally:
            process.kill()


def end(child: Child) -> int:
    """Wait for the process of a place to end; return its status."""
    (status,) = wait_for(lambda: [each for each in (child.reap(0.0),) if each is not None], what="the end of a process")
    return status


def test_places_are_replaced_one_after_the_other() -> None:
    renewal = Renewal(PATIENCE)
    with place(0) as first, place(1) as second:
        renewal.add([first, second])
        renewal.add([second])
        assert renewal.next_place() is first
        successor = Child("acceptor", 0, 1)
        renewal.set_successor(successor)
        assert renewal.next_place() is None, "one at a time"
        assert renewal.deadline is None and first.reap(0.0) is None, "the predecessor serves until it is asked to end"
        renewal.end_predecessor(100.0)
        assert renewal.deadline == 100.0 + PATIENCE
        assert end(first) == -signal.SIGTERM
        assert renewal.promote_successor(second) is None, "another process has died meanwhile"
        assert renewal.promote_successor(first) is successor
        assert (renewal.successor, renewal.deadline) == (None, None)
        assert renewal.next_place() is second
        renewal.set_successor(Child("acceptor", 1, 1))
        renewal.promote_successor(second)
        assert renewal.next_place() is None, "each place is replaced once"


def test_a_place_without_a_process_is_skipped() -> None:
    renewal = Renewal(PATIENCE)
    with place(1) as other:
        renewal.add([Child("acceptor", 0, 1), other])
        assert renewal.next_place() is other


def test_a_predecessor_that_does_not_end_in_time_is_killed() -> None:
    renewal = Renewal(PATIENCE)
    with place(0, IGNORES) as stubborn, capture_logs() as logs:
        renewal.add([stubborn])
        renewal.set_successor(Child("acceptor", 0, 1))
        renewal.kill_late(1000.0)
        renewal.end_predecessor(100.0)
        renewal.kill_late(100.0 + PATIENCE - 0.1)
        assert logs == [] and stubborn.reap(0.0) is None
        renewal.kill_late(100.0 + PATIENCE)
        assert end(stubborn) == -signal.SIGKILL
    (line,) = logs
    assert (line["process"], renewal.deadline) == ("acceptor 0", 100.0 + 2 * PATIENCE)


def test_a_rolling_restart_that_is_given_up_replaces_nothing_more() -> None:
    renewal = Renewal(PATIENCE)
    with place(0) as first, place(1) as second:
        renewal.add([first, second])
        renewal.set_successor(Child("acceptor", 0, 1))
        renewal.give_up("it died")
        assert (renewal.next_place(), renewal.successor, renewal.deadline) == (None, None, None)
        assert renewal.promote_successor(first) is None
        renewal.add([second])
        assert renewal.next_place() is second, "it can be asked for again"


def test_a_predecessor_that_was_asked_to_end_is_killed_without_a_successor_too() -> None:
    renewal = Renewal(PATIENCE)
    with place(0, IGNORES) as stubborn:
        renewal.add([stubborn])
        renewal.set_successor(Child("acceptor", 0, 2))
        renewal.end_predecessor(100.0)
        renewal.give_up("it died")
        assert (stubborn.vain, stubborn.next_incarnation) == (2, 4)
        renewal.kill_late(100.0 + PATIENCE)
        assert end(stubborn) == -signal.SIGKILL
        assert renewal.promote_successor(stubborn) is None
        assert renewal.deadline is None
