"""Virtual hosts of a running node: kept apart, and deleted with all their contents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from penstock.control.control import Refusal
from router.authority.vhosts import PREDECLARED
from tests.broker import Broker
from tests.raw import Client, Closed
from tests.waiting import wait_for

pytestmark = pytest.mark.broker


def add(broker: Broker, name: str) -> None:
    """Add a vhost that guest may use."""
    broker.call("vhost_add", name=name)
    broker.call("permission_set", user="guest", vhost=name, configure=".*", write=".*", read=".*")


@pytest.fixture
def vhost(broker: Broker) -> Iterator[str]:
    name = f"v-{uuid4().hex[:8]}"
    add(broker, name)
    yield name
    if name in {each["name"] for each in broker.call("vhost_list")}:
        broker.call("vhost_delete", name=name)


def test_vhosts_are_kept_apart(vhost: str, connect: Callable[..., Client], queue: str) -> None:
    here, there = connect().channel(), connect(vhost=vhost).channel()
    for channel in (here, there):
        channel.call("queue.declare", queue=queue)
        channel.call("queue.bind", queue=queue, exchange="amq.topic", routing_key="k")
        channel.call("confirm.select")
    here.publish(b"here", "k", "amq.topic")
    here.take("basic.ack")
    assert (here.depth(queue), there.depth(queue)) == (1, 0)
    there.publish(b"there", queue)
    there.take("basic.ack")
    message = there.get(queue)
    assert message is not None and message.body == b"there"
    assert here.depth(queue) == 1


def test_deleting_one_closes_its_connections_only(
    broker: Broker, vhost: str, connect: Callable[..., Client], queue: str
) -> None:
    bystander = connect()
    inside = [connect(vhost=vhost) for _ in range(4)]  # on both acceptors, most likely
    for client in inside:
        channel = client.channel()
        channel.call("queue.declare", queue=queue)
        channel.call("basic.consume", queue=queue)
    broker.call("vhost_delete", name=vhost)
    for client in inside:
        closed = client.ended()
        assert isinstance(closed, Closed)
        assert (closed.code, closed.text) == (320, f"CONNECTION_FORCED - vhost '{vhost}' is deleted")
    assert bystander.channel().call("queue.declare", exclusive=True).queue
    with pytest.raises(Closed) as refused:
        connect(vhost=vhost)
    assert (refused.value.code, refused.value.text) == (530, f"NOT_ALLOWED - vhost {vhost} not found")


def test_one_of_the_same_name_starts_empty(
    broker: Broker, vhost: str, connect: Callable[..., Client], queue: str
) -> None:
    channel = connect(vhost=vhost).channel()
    channel.call("confirm.select")
    channel.call("queue.declare", queue=queue, durable=True)
    channel.publish(b"x", queue)
    channel.take("basic.ack")
    broker.call("vhost_delete", name=vhost)
    add(broker, vhost)
    channel = connect(vhost=vhost).channel()
    assert channel.call("queue.declare", queue=queue, durable=True).messages == 0


def test_commands(broker: Broker) -> None:
    name = f"v-{uuid4().hex[:8]}"
    added = broker.penstock("vhost", "add", name)
    assert (added.returncode, added.stdout, added.stderr) == (0, f"vhost '{name}' added\n", "")
    assert broker.penstock("vhost", "add", name).stdout == f"vhost '{name}' exists already\n"
    assert name in broker.penstock("vhost", "list").stdout
    listed = json.loads(broker.penstock("vhost", "list", "--json").stdout)
    assert {"name": name, "queues": 0, "exchanges": len(PREDECLARED)} in listed
    assert broker.penstock("vhost", "delete", name).returncode == 0
    again = broker.penstock("vhost", "delete", name)
    assert (again.returncode, again.stderr) == (2, f"penstock: there is no vhost '{name}'\n")


def test_a_command_outlives_the_router(broker: Broker) -> None:
    """An answered command is stored; the next router serves the socket again."""
    name = f"v-{uuid4().hex[:8]}"
    broker.call("vhost_add", name=name)
    pid = broker.kill("router")
    broker.wait_replaced("router", pid)

    def listed() -> list[str]:
        try:
            return [vhost["name"] for vhost in broker.call("vhost_list")]
        except (OSError, Refusal):
            return []

    assert name in wait_for(listed, what="the next router's answer")
    broker.call("vhost_delete", name=name)
