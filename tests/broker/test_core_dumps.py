"""Core dumps of a real node's processes, where the machine would have them."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.broker.process import ROOT

pytestmark = pytest.mark.broker


@contextmanager
def allowed() -> Iterator[int]:
    """Let the processes that are started in the block leave core dumps; yield the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def limits(broker: Broker) -> set[int]:
    """Return the limits of core dumps of all processes of a node."""
    return {resource.prlimit(each.pid, resource.RLIMIT_CORE)[0] for each in broker.processes()}


def test_no_process_of_a_node_leaves_one(tmp_path: Path) -> None:
    before = {*ROOT.glob("core*")}
    with allowed() as limit:
        broker = Broker(tmp_path)
    try:
        assert limits(broker) == {min(limit, 1) if limit >= 0 else 1}
        for role in ("acceptor", "shard", "router"):
            (pid,) = broker.children(role)
            os.kill(pid, signal.SIGSEGV)
            broker.wait_replaced(role, pid)
        assert limits(broker) <= {0, 1}
        os.kill(broker.pid, signal.SIGABRT)
        found = os.waitid(os.P_PID, broker.pid, os.WEXITED | os.WNOWAIT)
        assert found is not None and found.si_code == os.CLD_KILLED
        assert {*ROOT.glob("core*")} == before
    finally:
        broker.kill_all()


def test_a_developer_may_have_them(tmp_path: Path) -> None:
    with allowed() as limit, Broker(tmp_path, "watchdog.core_dumps=true") as broker:
        assert limits(broker) == {limit}
