"""Hung processes: they are detected and replaced, and new clients are not sent to a hung acceptor."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from ops.status import collect
from penstock.process.silence import SILENT_SECONDS
from tests.broker.process import Broker
from tests.raw import Client
from tests.waiting import wait_for

CLIENTS = 30


@pytest.mark.parametrize("role", ["acceptor", "shard", "router"])
def test_a_hung_process_is_replaced(tmp_path: Path, role: str) -> None:
    with Broker(tmp_path, "watchdog.seconds=2") as broker:
        client = broker.connect()
        (hung,) = broker.children(role)
        os.kill(hung, signal.SIGSTOP)
        broker.wait_replaced(role, hung)
        if role == "acceptor":
            assert client.hung_up()
        with broker.connect() as other:
            other.call("channel.open", 1)
            other.call("queue.declare", 1, queue="q")
        (reported,) = (line for line in map(json.loads, broker.log.splitlines()) if "silent_seconds" in line)
        assert (reported["process"], reported["work"], reported["state"]) == (f"{role} 0", "serving", "stopped")


def test_clients_that_come_do_not_meet_a_hung_acceptor(tmp_path: Path) -> None:
    with Broker(tmp_path, "watchdog.seconds=0", acceptors=2) as broker:
        broker.connect().close()
        hung = broker.children("acceptor")[0]
        os.kill(hung, signal.SIGSTOP)
        clients = [Client.connect(broker.address) for _ in range(CLIENTS)]
        for client in clients:
            client.close()
        os.kill(hung, signal.SIGCONT)


def test_no_acceptor_has_all_clients(tmp_path: Path) -> None:
    with Broker(tmp_path, acceptors=2) as broker, ExitStack() as stack:
        for _ in range(CLIENTS):
            stack.enter_context(broker.connect())
        counts = [counted(broker, pid) for pid in broker.children("acceptor")]
        assert sum(counts) == CLIENTS
        assert min(counts) > 0


def counted(broker: Broker, pid: int) -> int:
    """Return the number of an acceptor's clients."""
    port = broker.address.port
    connections = psutil.Process(pid).net_connections("tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED and each.laddr.port == port for each in connections)


def test_status_shows_who_does_not_answer(tmp_path: Path) -> None:
    with Broker(tmp_path, "watchdog.seconds=0", acceptors=2) as broker:
        broker.connect().close()
        assert silent(broker) == []
        hung = broker.children("acceptor")[1]
        os.kill(hung, signal.SIGSTOP)
        wait_for(lambda: silent(broker) == [("acceptor", 1)], what="a silent acceptor")
        assert "ready, silent for" in broker.penstock("status").stdout
        os.kill(broker.pid, signal.SIGSTOP)
        wait_for(lambda: silent(broker) == [("supervisor", 0), ("acceptor", 1)], what="a silent supervisor")
        for pid in (broker.pid, hung):
            os.kill(pid, signal.SIGCONT)
        wait_for(lambda: silent(broker) == [], what="signs of life")


def silent(broker: Broker) -> list[tuple[str, int]]:
    processes = collect(broker.directory / "data").processes
    return [(each["role"], each["index"]) for each in processes if each["silent"] >= SILENT_SECONDS]
