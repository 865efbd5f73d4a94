"""The memory of idle connections."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.open_files import many_files
from tests.raw import Client

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.usefixtures("penstock_only")]

CONNECTIONS = 2000
MIB = 1 << 20


def test_idle_connections(tmp_path: Path) -> None:
    """2,000 connections with a channel and a consumer each cost less than 100 MB in all."""
    with Broker(tmp_path, acceptors=2) as broker, many_files(), ExitStack() as opened:
        first = opened.enter_context(Client.connect(broker.address)).channel()
        first.call("queue.declare", queue="q")
        before = broker.pss()
        for _ in range(CONNECTIONS):
            client = Client.connect(broker.address)
            opened.callback(client.socket.close)
            client.channel().call("basic.consume", queue="q")
        cost = broker.pss() - before
        assert cost < 100 * MIB
        assert first.call("queue.declare", queue="q", passive=True).consumers == CONNECTIONS
