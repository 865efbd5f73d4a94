"""A client that does not read its returned messages is no longer read, and the operator sees that."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from load.hostile import announced, frame
from load.target import Target
from load.wire import Wire
from ops.flow import command
from tests.broker.process import Broker
from tests.raw import Client
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

RETURNED = announced(1, "nowhere", 100_000, 1) + frame(3, 1, bytes(100_000))


def test_who_takes_no_returns_is_shown_with_the_reason(tmp_path: Path) -> None:
    with Broker(tmp_path, "amqp.output_bytes=1 MiB") as broker:
        wire = Wire(Target(*broker.address))
        wire.socket.setblocking(False)
        pending = memoryview(RETURNED * 500)

        def unread() -> list[dict[str, object]]:
            nonlocal pending
            with suppress(BlockingIOError):
                while pending:
                    pending = pending[wire.socket.send(pending) :]
            found: list[dict[str, object]] = json.loads(broker.penstock("flow", "unread", "--json").stdout)
            return found

        (found,) = wait_for(unread, what="a connection that is not read")
        assert found["reason"] == "it does not take the answers to what it has sent"
        assert isinstance(found["bytes"], int) and found["bytes"] > 1024 * 1024
        assert broker.log.count("connection is not read") == 1
        why = broker.penstock("flow", "why", str(found["connection"])).stdout
        assert f"connection {found['connection']} (" in why and "not read for" in why
        status = json.loads(broker.penstock("status", "--json").stdout)
        assert sum(process.get("paused_connections", 0) for process in status["processes"]) == 1
        wire.socket.close()
        wait_for(
            lambda: broker.penstock("flow", "unread").stdout == "all connections are read\n",
            what="the connection to be gone",
        )


def test_of_whom_no_more_is_kept_is_shown_with_whose_share_it_is(tmp_path: Path) -> None:
    shares = ("flow.parked_memory=1 MiB", "flow.spool_limit=1 MiB", "flow.vhost_percent=1")
    with Broker(tmp_path, *shares) as broker:
        client = Client.connect(broker.address)
        channel = client.channel()
        channel.call("queue.declare", queue="full", arguments={"x-flow-stop-count": 1})
        for _ in range(20):
            channel.publish(bytes(4096), "full")
        (held,) = wait_for(
            lambda: [held for held in broker.held() if held["spent"]], what="a connection of which no more is kept"
        )
        assert held["spent"] == "vhost '/' has its share (flow.vhost_percent)"
        data = ("--data", str(broker.directory / "data"))
        assert "(flow.vhost_percent)" in CliRunner().invoke(command.app, data).stdout  # lines of a cell are short
        why = CliRunner().invoke(command.app, ["why", *data, held["connection"]]).stdout
        assert f"allowance used up: {held['spent']}" in why
        client.kill()  # a close would not be read
