"""Connections up to the limit of open files: more are refused, and the broker's timed work goes on."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.broker import Broker
from tests.outcomes import Confirms
from tests.raw import Client
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

FILES = 256


def test_each_process_may_open_as_many_files_as_the_hard_limit_lets(tmp_path: Path) -> None:
    with Broker(tmp_path, by=("prlimit", f"--nofile={FILES}:{4 * FILES}")) as broker:
        limits = {each.name(): each.rlimit(psutil.RLIMIT_NOFILE) for each in broker.processes()}
        assert {"pstk-supervisor", "pstk-template", "pstk-acceptor-0", "pstk-shard-0"} <= limits.keys()
        assert set(limits.values()) == {(4 * FILES, 4 * FILES)}


def test_more_connections_than_files(tmp_path: Path) -> None:
    limits = ("prlimit", f"--nofile={FILES}")
    with (
        Broker(tmp_path, "amqp.handshake_timeout=2", acceptors=1, shards=1, by=limits) as broker,
        ExitStack() as opened,
    ):
        good = opened.enter_context(Client.connect(broker.address, heartbeat=4))
        channel = good.channel()
        channel.call("queue.declare", queue="q")
        confirms = Confirms(channel)
        silent = [opened.enter_context(socket.create_connection(broker.address, PATIENCE)) for _ in range(2 * FILES)]
        assert all(is_closed(each) for each in silent)
        assert "connection refused: the limit of open files is near" in broker.log
        assert "handshake timed out" in broker.log
        confirms.publish(b"x", "q")
        confirms.wait()
        beats = good.heartbeats
        wait_for(lambda: received(good) > beats + 1, what="heartbeats")
        assert broker.connect().channel().depth("q") == 1
        assert '"level":"error"' not in broker.log


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def received(client: Client) -> int:
    """Send a heartbeat; return the number of heartbeats received so far."""
    client.heartbeat()
    client.poll()
    return client.heartbeats
