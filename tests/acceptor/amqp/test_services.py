"""The services of connections and channels: shared within an acceptor, with a handler for each method."""

from __future__ import annotations

from dataclasses import fields

import pytest

from acceptor.amqp.methods import HANDLERS
from acceptor.amqp.services import Services
from penstock.amqp.spec import BY_NAME
from tests.frames import METHODS
from tests.simulator.joined.node import Node, open_channel

OF_THE_BROKER = {"basic.return", "basic.deliver"}
WITHOUT_HANDLER = {"channel.open", "basic.publish", "basic.nack", "basic.reject"}
"""Methods handled by the connection, or scanned into runs; the handler of basic.ack serves all runs in transactions."""
ANSWERS = {"channel.flow-ok", "basic.cancel-ok"}
"""Answers that a client may send, besides close-ok."""


def test_every_method_that_a_client_may_send_on_a_channel_has_a_handler() -> None:
    requests = {name for name in METHODS if not name.startswith("connection.") and not name.endswith(("-ok", "-empty"))}
    expected = (requests | ANSWERS) - OF_THE_BROKER - WITHOUT_HANDLER
    assert {BY_NAME[name].amqp_name for name in HANDLERS} == expected


@pytest.mark.parametrize("method", ["basic.deliver", "queue.declare-ok", "basic.get-empty"])
def test_a_method_without_a_handler_is_refused_by_name(method: str) -> None:
    with Node() as node:
        client = open_channel(node)
        client.send(method, 1)
        node.settle()
        closed = client.take("connection.close")
        assert (closed.code, closed.text) == (503, "COMMAND_INVALID - unimplemented method")
        assert (closed.class_id, closed.method_id) == (METHODS[method].class_id, METHODS[method].method_id)


def test_connections_and_channels_share_the_parts_of_their_acceptor_and_no_other() -> None:
    with Node(acceptors=2) as node:
        one, same, other = (open_channel(node, acceptor) for acceptor in (0, 0, 1))
        services = one.connection.services
        assert same.connection.services is services
        assert one.connection.channels[1].services is services
        for field in fields(Services):
            if field.name != "handlers":
                assert getattr(services, field.name) is not getattr(other.connection.services, field.name)
        core = node.core(0)
        assert (services.acceptor, services.gates, services.holding) == (core.state, core.gates, core.holding)
