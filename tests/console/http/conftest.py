"""A node for tests of hostile clients, which has to come out of each of them unharmed."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from tests.console.http.node import HttpBroker
from tests.open_files import many_files
from tests.waiting import wait_for

IDLE = 3
CONNECTIONS = 200
LEFT = 48 * 1024 * 1024
"""Bytes that the console may have more after a test than before."""
SETTINGS = (
    f"http.idle_seconds={IDLE}", f"http.connections={CONNECTIONS}", "telemetry.frame_seconds=0.1",
    "telemetry.file_seconds=0.5",
)  # fmt: skip


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpBroker]:
    """Return a node with HTTP that has little patience."""
    with many_files(), HttpBroker(tmp_path_factory.mktemp("http"), *SETTINGS) as broker:
        yield broker


@pytest.fixture
def unharmed(node: HttpBroker) -> Iterator[None]:
    """The same console answers after a test, with about the memory that it had, and AMQP is served."""
    assert node.get("/api/overview").status == 200
    pid = console(node)
    before = memory(pid)
    yield
    assert node.get("/api/overview").status == 200
    assert console(node) == pid
    node.connect().close()
    wait_for(lambda: memory(pid) < before + LEFT, what="memory that is given back")


def console(node: HttpBroker) -> int:
    """Return the pid of the console."""
    (pid,) = node.children("console")
    return pid


def memory(pid: int) -> int:
    """Return the private memory of a process in bytes."""
    return int(psutil.Process(pid).memory_full_info().uss)
