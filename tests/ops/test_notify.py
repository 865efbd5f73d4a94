"""Notifications of the service manager."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ops.notify import Notifier
from tests.broker.process import Broker
from tests.waiting import PATIENCE, wait_for

READY = ["READY=1\nSTATUS=serving"]


class Manager:
    """A service manager that listens at an address."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(PATIENCE)

    def receives(self) -> str:
        return self.socket.recv(1000).decode()

    def received(self) -> list[str]:
        """Return the messages that have arrived since the last call."""
        self.socket.setblocking(False)
        found = []
        try:
            while True:
                found.append(self.receives())
        except BlockingIOError:
            return found
        finally:
            self.socket.settimeout(PATIENCE)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(str(tmp_path / "notify"))
    with manager.socket:
        yield manager


def test_a_unit_of_type_notify(manager: Manager, tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "OTHER": "1"}
    notifier = Notifier(environment)
    assert environment == {"OTHER": "1"}
    assert notifier.every is None
    notifier.report_ready()
    notifier.keep_alive(1.0)
    notifier.report_stopping()
    assert manager.received() == [*READY, "STOPPING=1"]


def test_signs_of_life_are_as_many_as_are_wanted(manager: Manager, tmp_path: Path) -> None:
    wanted = {"WATCHDOG_USEC": "8000000", "WATCHDOG_PID": str(os.getpid())}
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify"), **wanted})
    assert notifier.every == 2.0
    notifier.keep_alive(9.0)
    notifier.report_ready()
    for tenth in range(100, 161):
        notifier.keep_alive(tenth / 10)
    assert manager.received() == READY + ["WATCHDOG=1"] * 4


def test_those_that_another_process_is_to_give(tmp_path: Path) -> None:
    wanted = {"WATCHDOG_USEC": "8000000", "WATCHDOG_PID": "1"}
    assert Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify"), **wanted}).every is None


def test_an_abstract_address() -> None:
    name = f"penstock-test-{os.getpid()}"
    manager = Manager(f"\0{name}")
    with manager.socket:
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).report_ready()
        assert manager.received() == READY


def test_without_a_manager(tmp_path: Path) -> None:
    Notifier({}).report_ready()
    Notifier({"WATCHDOG_USEC": "1"}).keep_alive(1.0)
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).report_ready()


@pytest.mark.broker
def test_a_supervisor_that_hangs_gives_no_sign_of_life(manager: Manager, tmp_path: Path) -> None:
    variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"}
    with Broker(tmp_path, environment=variables) as broker:
        wait_for(lambda: manager.receives() == READY[0], what="that it is ready")
        wait_for(lambda: manager.receives() == "WATCHDOG=1", what="a sign of life")
        os.kill(broker.pid, signal.SIGSTOP)
        wait_for(lambda: psutil.Process(broker.pid).status() == psutil.STATUS_STOPPED, what="a supervisor that hangs")
        manager.received()
        with broker.connect() as client:
            client.channel()
        manager.socket.settimeout(2)
        with pytest.raises(TimeoutError):
            manager.receives()
        os.kill(broker.pid, signal.SIGCONT)
        manager.socket.settimeout(PATIENCE)
        assert manager.receives() == "WATCHDOG=1"
    assert "STOPPING=1" in manager.received()


def test_a_start_that_takes_long(manager: Manager, tmp_path: Path) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    notifier.report_starting("waiting for router 0", 60.0)
    notifier.report_ready()
    assert manager.received() == [
        "STATUS=waiting for router 0\nEXTEND_TIMEOUT_USEC=60000000",
        *READY,
    ]
