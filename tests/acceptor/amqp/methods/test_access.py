"""Class access: a client of an older AMQP that requests a ticket gets one, whatever rights it requests."""

from __future__ import annotations

from typing import Any

from tests.simulator.joined.node import Node, open_channel

REQUESTS: list[dict[str, Any]] = [
    {}, {"realm": "/data", "exclusive": True, "write": True}, {"realm": "", "passive": True},
]  # fmt: skip


def test_every_request_is_answered_with_the_ticket_1() -> None:
    with Node() as node:
        client = open_channel(node)
        for arguments in REQUESTS:
            assert client.call("access.request", 1, **arguments).arguments == {"t": 1}
        client.call("queue.declare", 1, t=1, queue="q")
