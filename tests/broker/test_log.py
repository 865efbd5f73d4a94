"""The log of a node: bounded whatever clients do; its configuration can be reloaded."""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.node.log_limit import PEER_LINES
from tests.broker import Broker
from tests.frames import method_frame
from tests.raw import Client, Closed
from tests.router.making import rabbit_hash
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

ERRORS = 4000
AT_ONCE = 200
MISTAKE = b"".join(
    (
        method_frame("channel.open", 1),
        method_frame("basic.get", 1, queue="n" * 250),
        method_frame("channel.close-ok", 1),
    )
)


def lines(broker: Broker, event: str) -> list[dict[str, Any]]:
    found = []
    for line in broker.log.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # being written
            continue
        if entry["event"] == event or entry.get("of") == event:
            found.append(entry)
    return found


def reported(entries: list[dict[str, Any]]) -> int:
    """Return the number of lines without suppression."""
    return sum(entry.get("lines", 1) for entry in entries)


def seconds(entries: list[dict[str, Any]]) -> float:
    """Return the longest time in which the entries can have begun, in seconds."""
    first, *_, last = (datetime.fromisoformat(entry["timestamp"]) for entry in entries)
    return (last - first).total_seconds() + 2


def test_a_client_that_makes_mistakes_does_not_fill_the_log_nor_hide_those_of_others(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, broker.connect() as bad:
        broker.call("user_add", name="other", password_hash=rabbit_hash("secret"), tags=[])
        broker.call("permission_set", user="other", vhost="/", configure=".*", write=".*", read=".*")
        for _ in range(ERRORS // AT_ONCE):
            bad.write(MISTAKE * AT_ONCE)
            names = [bad.next(channel=1).name for _ in range(2 * AT_ONCE)]
            assert names == ["channel.open-ok", "channel.close"] * AT_ONCE
        with Client.connect(broker.address, user="other", password="secret") as good:
            with pytest.raises(Closed):
                good.channel().call("basic.get", queue="mine")
            wait_for(lambda: reported(lines(broker, "client error")) == ERRORS + 1, what="all lines, or their number")
        found = lines(broker, "client error")
        assert [entry for entry in found if "'mine'" in entry.get("text", "")]
        assert len(found) <= seconds(found) * (PEER_LINES + 1) + 1


def test_nor_does_who_has_not_logged_in(tmp_path: Path) -> None:
    tries = 300
    with Broker(tmp_path) as broker:
        with ExitStack() as opened:
            clients = [opened.enter_context(socket.create_connection(broker.address, PATIENCE)) for _ in range(tries)]
            for client in clients:
                client.send(b"GET / HTTP/1.1\r\n\r\n")
        wait_for(lambda: reported(lines(broker, "no AMQP 0-9-1 client")) == tries, what="all lines, or their number")
        found = lines(broker, "no AMQP 0-9-1 client")
        assert len(found) <= seconds(found) * (PEER_LINES + 1)


def test_the_configuration_is_read_again(tmp_path: Path) -> None:
    """SIGHUP applies the settings that can change, in all processes and in later ones, and reports the rest."""
    config = tmp_path / "node.toml"
    config.write_text('max_queues = 1000\n[flow]\nmax_count = "5"\n')
    with Broker(tmp_path, acceptors=2, options=("--config", str(config))) as broker:

        def read_again(text: str, event: str) -> dict[str, Any]:
            before = len(lines(broker, event))
            config.write_text(text)
            os.kill(broker.pid, signal.SIGHUP)
            return wait_for(lambda: lines(broker, event)[before:], what=event)[-1]

        def mistakes(count: int) -> int:
            """Make `count` client errors; return how many more are logged."""
            before = reported(lines(broker, "client error"))
            for _ in range(count):
                with broker.connect() as client, pytest.raises(Closed):
                    client.channel().call("basic.get", queue="missing")
            return reported(lines(broker, "client error")) - before

        wait_for(lambda: mistakes(4) == 4, what="mistakes in the log")
        new = 'log_level = "error"\nmax_queues = 2000\n[flow]\nmax_count = 5\n'
        assert read_again(new, "configuration reloaded")["changed"] == {"log_level": "error"}
        (said,) = lines(broker, "setting cannot change while the node runs")
        assert (said["setting"], said["running"], said["configured"]) == ("max_queues", 1000, 2000)
        assert said["origin"] == f"in {config}"
        wait_for(lambda: mistakes(4) == 0, what="silence")
        broker.wait_replaced("acceptor", broker.kill("acceptor"))
        assert mistakes(4) == 0
        problem = read_again('log_level = "loud"\n', "invalid configuration, nothing changes")["problem"]
        assert problem.startswith("log_level: Input should be")
        assert mistakes(4) == 0
        assert read_again('log_level = "debug"\n', "configuration reloaded")["changed"] == {"log_level": "debug"}
        wait_for(lambda: mistakes(4) == 4, what="mistakes in the log again")
        assert len(lines(broker, "refused")) == 0
        with broker.connect() as client, pytest.raises(Closed):
            client.channel().call("queue.declare", queue="amq.mine")
        wait_for(lambda: lines(broker, "refused"), what="what the router says at debug")
