"""The thread that searches for deadlocks. What it finds: tests/broker/test_deadlocks.py."""

from __future__ import annotations

from ops.deadlocks import DeadlockWatch
from tests.ops.commanded import Commanded
from tests.waiting import PATIENCE


def test_no_thread_is_started_unless_a_time_is_set(commanded: Commanded) -> None:
    flow = commanded.node.settings.flow.model_copy(update={"deadlock_seconds": 0})
    watch = DeadlockWatch(commanded.node.settings.model_copy(update={"flow": flow}), commanded.data / "gauges")
    with watch:
        assert not watch._thread.is_alive()
    with (other := DeadlockWatch(commanded.node.settings, commanded.data / "gauges")):
        assert other._thread.is_alive()
    other._thread.join(PATIENCE)
    assert not other._thread.is_alive()
