"""Policies of a running node: existing queues and exchanges follow at once, and no producer waits in vain."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker import Broker
from tests.broker.flow import SIZE, most, settled_depth, wait_held
from tests.outcomes import wait_get
from tests.producers import Drain, Producers
from tests.raw import Address, Channel, Client
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

SetPolicy = Callable[..., None]


@pytest.fixture
def policy(broker: Broker, queue: str) -> Iterator[SetPolicy]:
    """A function that sets the policy of the test's queue, or deletes it if there is no definition."""

    def set_policy(operator: bool = False, **definition: Any) -> None:
        spelled = {key.replace("_", "-"): value for key, value in definition.items()}
        name = {"vhost": "/", "operator": operator, "name": queue}
        if spelled:
            broker.call(
                "policy_set", **name, pattern=f"^{queue}$", apply_to="all", priority=0, definition=spelled
            )  # fmt: skip
        else:
            broker.call("policy_delete", **name)

    yield set_policy
    for each in broker.call("policy_list", vhost=None):
        if each["name"] == queue:
            set_policy(each["operator"])


def test_a_mark_stops_producers_that_are_at_it(
    address: Address, channel: Channel, queue: str, policy: SetPolicy
) -> None:
    channel.call("queue.declare", queue=queue)
    with Producers(address, [queue], size=SIZE) as producers:  # endless: any number may pass before the policy
        wait_for(lambda: channel.depth(queue) > 100, what="messages")
        policy(flow_stop_count=50)
        depth = wait_held(channel, queue, producers)
        policy(flow_stop_count=depth + 5000, flow_resume_count=depth + 5000)
        wait_for(lambda: channel.depth(queue) > depth + 4000, what="what a raised mark lets in")
        assert settled_depth(channel, queue) <= most(depth + 5000)
        policy()
        wait_for(lambda: channel.depth(queue) > most(depth + 5000), what="producers that nothing holds any more")


def test_a_policy_that_goes_frees_producers_of_a_queue_nobody_drains(
    address: Address, channel: Channel, queue: str, policy: SetPolicy
) -> None:
    policy(max_length=100, overflow="flow")
    channel.call("queue.declare", queue=queue)
    with Producers(address, [queue], size=SIZE, count=3000) as producers:
        assert 80 <= wait_held(channel, queue, producers) <= most(80)
        policy()
        wait_for(lambda: producers.done, what="producers that nothing holds any more")
        # Closing a socket with unread input resets it, and unsent output in the kernel is lost.
        wait_for(lambda: channel.depth(queue) == 3000, what="all of it in the queue")


@pytest.mark.parametrize("after", [{}, {"flow_stop_count": 1000}, {"max_length": 1000, "overflow": "reject-publish"}])
def test_withheld_confirms_are_given(channel: Channel, queue: str, policy: SetPolicy, after: dict[str, Any]) -> None:
    """Confirms are given when a mark is raised or removed, or replaced by another overflow."""
    policy(flow_stop_count=5)
    channel.call("queue.declare", queue=queue)
    channel.call("confirm.select")
    for _ in range(6):
        channel.publish(b"x", queue)
    wait_for(lambda: channel.client.channel().depth(queue) == 6, what="all in the queue")
    confirmed = [event.delivery_tag for event in channel.pending() if event.name == "basic.ack"]
    assert max(confirmed, default=0) < 6
    policy(**after)
    wait_for(lambda: max([e.delivery_tag for e in channel.pending() if e.name == "basic.ack"], default=0) == 6)


def test_a_limit_drops_at_once(channel: Channel, queue: str, policy: SetPolicy) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-max-length": 50})
    for number in range(50):
        channel.publish(b"%d" % number, queue)
    wait_for(lambda: channel.depth(queue) == 50)
    policy(max_length=10)
    wait_for(lambda: channel.depth(queue) == 10, what="a queue within its new limit")
    message = channel.get(queue)
    assert message is not None and message.body == b"40"
    policy(max_length=10, overflow="reject-publish")
    channel.call("confirm.select")
    channel.publish(b"last that fits", queue)
    assert channel.take("basic.ack", "basic.nack").name == "basic.ack"
    channel.publish(b"one too many", queue)
    assert channel.take("basic.ack", "basic.nack").name == "basic.nack"
    policy()
    channel.publish(b"and now", queue)
    assert channel.take("basic.ack", "basic.nack").name == "basic.ack"


def test_declaring_again_is_about_the_arguments(channel: Channel, queue: str, policy: SetPolicy) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-max-length": 50})
    policy(max_length=10)
    channel.call("queue.declare", queue=queue, arguments={"x-max-length": 50})
    channel.send("queue.declare", queue=queue, arguments={"x-max-length": 10})
    closed = channel.closed()
    text = f"inequivalent arg 'x-max-length' for queue '{queue}' in vhost '/': received '10' but current is '50'"
    assert (closed.code, closed.text) == (406, f"PRECONDITION_FAILED - {text}")


def test_an_alternate_exchange(channel: Channel, queue: str, policy: SetPolicy) -> None:
    channel.call("queue.declare", queue=queue)
    channel.call("exchange.declare", exchange=queue, type="direct")
    channel.call("queue.bind", queue=queue, exchange="amq.fanout")
    try:
        policy(alternate_exchange="amq.fanout")
        channel.publish(b"by policy", "nothing is bound by that", queue, mandatory=True)
        message = wait_get(channel, queue)
        assert message.body == b"by policy"
        policy()
        channel.publish(b"comes back", "nothing is bound by that", queue, mandatory=True)
        assert channel.take("basic.return").body == b"comes back"
    finally:
        channel.call("exchange.delete", exchange=queue)


def test_it_is_there_after_the_router_died(
    broker: Broker, channel: Channel, queue: str, policy: SetPolicy, connect: Callable[..., Client]
) -> None:
    policy(max_length=3)
    policy(operator=True, max_length=2)
    pid = broker.kill("router")
    broker.wait_replaced("router", pid)
    channel.call("queue.declare", queue=queue)
    for _ in range(5):
        channel.publish(b"x", queue)
    wait_for(lambda: channel.depth(queue) == 2)


def test_commands(broker: Broker, channel: Channel, queue: str, tmp_path: Path) -> None:
    channel.call("queue.declare", queue=queue)
    definition = '{"max-length": 5, "ha-mode": "all"}'
    added = broker.penstock("policy", "set", queue, f"^{queue}", definition, "--apply-to", "queues", "--priority", "7")
    assert (added.returncode, added.stdout, added.stderr) == (0, f"policy '{queue}' added\n", "")
    listed = json.loads(broker.penstock("policy", "list", "--json").stdout)
    record = next(each for each in listed if each["name"] == queue)
    assert (record["apply_to"], record["priority"], record["definition"]) == ("queues", 7, json.loads(definition))
    assert queue in broker.penstock("policy", "list").stdout
    reported = broker.penstock("policy", "explain", queue).stdout
    assert f"policy: {queue}; operator policy: none" in reported and "accepted for RabbitMQ's sake" in reported
    wrong = broker.penstock("policy", "set", queue, "^q", '{"max-lenght": 5}')
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == (
        f"penstock: invalid policy '{queue}' in vhost '/': there is no key 'max-lenght'; did you mean 'max-length'?\n"
    )
    assert "is not JSON" in broker.penstock("policy", "set", queue, "^q", "{").stderr
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"policies": [{**record, "apply-to": "queues", "priority": 8}]}))
    assert broker.penstock("policy", "import", str(file)).stdout == "imported 1 policy\n"
    assert next(each for each in broker.call("policy_list", vhost="/") if each["name"] == queue)["priority"] == 8
    assert broker.penstock("policy", "delete", queue).returncode == 0
    again = broker.penstock("policy", "delete", queue)
    assert (again.returncode, again.stderr) == (2, f"penstock: there is no policy '{queue}' in vhost '/'\n")


def test_held_by_a_policy_while_others_drain(address: Address, channel: Channel, queue: str, policy: SetPolicy) -> None:
    """Marks go up and down while messages flow: all of them arrive."""
    channel.call("queue.declare", queue=queue)
    with Producers(address, [queue], size=SIZE, count=20_000) as producers:
        drain = Drain(channel.client, queue, prefetch=40)
        for stop in (100, 20, 500, 40, 2000, 50):  # more than are consumed between two acks
            policy(flow_stop_count=stop)
            drain.take(1000)
        policy()
        drain.take(14_000)
        wait_for(lambda: producers.done)
