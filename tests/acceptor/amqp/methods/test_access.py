"""Class access: a client of an older AMQP asks for a ticket and gets one, whatever it asks for."""

from __future__ import annotations

from tests.joined import Node, open_channel


def test_every_request_is_answered_with_the_ticket_1() -> None:
    with Node() as node:
        client = open_channel(node)
        for arguments in ({}, {"realm": "/data", "exclusive": True, "write": True}, {"realm": "", "passive": True}):
            assert client.call("access.request", 1, **arguments).arguments == {"t": 1}
        client.call("queue.declare", 1, t=1, queue="q")
