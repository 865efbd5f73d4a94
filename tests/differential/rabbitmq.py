"""Debian's RabbitMQ, started by a test on ports and in directories of its own, with an epmd of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.raw import Address
from tests.waiting import wait_for

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_SECONDS = 90
STOP_SECONDS = 30


@contextmanager
def serve(directory: Path, management: int | None = None) -> Iterator[Address]:
    """Serve RabbitMQ on a free port of 127.0.0.1, and its management on another one, if that is given. Skip the test if
    it is not installed.
    """
    epmd = shutil.which("epmd")
    if not SERVER.exists() or epmd is None:
        pytest.skip("Debian's rabbitmq-server is not installed")
    amqp, distribution, names = (free_port() for _ in range(3))
    address = Address("127.0.0.1", amqp)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
    environment = own | _environment(directory, amqp, distribution, names)
    if management is not None:
        _configure_management(directory, management)
    with (directory / "rabbitmq.log").open("wb") as log, ExitStack() as stack:
        for command in ([epmd, "-port", str(names), "-address", "127.0.0.1"], [str(SERVER)]):
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
            stack.callback(_stop, process)
        wait_for(lambda: _answers(address), START_SECONDS, "RabbitMQ to be ready", interval=0.2)
        yield address


def _configure_management(directory: Path, port: int) -> None:
    (directory / "enabled_plugins").write_text("[rabbitmq_consistent_hash_exchange,rabbitmq_management].\n")
    (directory / "none.conf").write_text(
        f"management.tcp.port = {port}\nmanagement.tcp.ip = 127.0.0.1\ncollect_statistics_interval = 500\n"
    )


def _environment(directory: Path, amqp: int, distribution: int, names: int) -> dict[str, str]:
    (directory / "enabled_plugins").write_text("[rabbitmq_consistent_hash_exchange].\n")
    return {
        "HOME": str(directory),
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "differential@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(amqp),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_PID_FILE": str(directory / "pid"),
        "RABBITMQ_CONFIG_FILE": str(directory / "none"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "LC_ALL": "C.UTF-8",
    }


def _answers(address: Address) -> bool:
    """Whether the server speaks AMQP: the port listens before the node is ready for logins."""
    try:
        with socket.create_connection(address, timeout=5) as connection:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            return connection.recv(1) == b"\x01"
    except OSError:
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process group, and kill it if it does not end."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    except ProcessLookupError:
        process.wait()
