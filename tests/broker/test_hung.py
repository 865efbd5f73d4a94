"""A process that hangs: it is found and replaced."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from ops.status import collect
from penstock.pulse import SILENT_SECONDS
from tests.broker.process import Broker
from tests.waiting import wait_for


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
        (told,) = (line for line in map(json.loads, broker.log.splitlines()) if "silent_seconds" in line)
        assert (told["process"], told["work"], told["state"]) == (f"{role} 0", "serving", "stopped")


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
