"""Unread answers cost the broker only their length, however short each of them is."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.process.node_memory import private_memory
from tests.broker import Broker
from tests.frames import method_frame, publish_frames
from tests.raw import Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

ANSWERS = 60_000
NAME = "q" * 250
"""A long name, in each answer: the kernel buffers few of them."""
AT_ONCE = 100
MIB = 1 << 20


def test_short_answers(tmp_path: Path) -> None:
    """Each answer is written in a turn of its own, because it comes from the shard."""
    with Broker(tmp_path, acceptors=1, shards=1) as broker:
        (acceptor,) = broker.children("acceptor")
        with (
            Client.connect(broker.address, receive_buffer=16 * 1024) as client,
            Client.connect(broker.address) as other,
        ):
            channel, watching = client.channel(), other.channel()
            channel.call("queue.declare", queue=NAME)
            before = private_memory(acceptor)
            asked = method_frame("queue.declare", channel.number, queue=NAME, passive=True)
            for _ in range(ANSWERS // AT_ONCE):
                client.socket.sendall(asked * AT_ONCE)
            client.socket.sendall(publish_frames(channel.number, b"the last", "", NAME))
            wait_for(lambda: watching.depth(NAME), what="all to be answered")
            assert private_memory(acceptor) - before < 32 * MIB
            for _ in range(ANSWERS):
                assert channel.take("queue.declare-ok").queue == NAME
            assert channel.get(NAME)
