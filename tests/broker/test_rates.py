"""Rates on a running node: a producer that exceeds one is notified and slowed down, and loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import uuid4

import pytest

from penstock.control.control import Refusal
from tests.broker import Broker
from tests.broker.flow import declaration_refused
from tests.outcomes import wait_get
from tests.raw import CAPABILITIES, Channel, Client
from tests.waiting import wait_for

pytestmark = pytest.mark.broker


@pytest.fixture
def limit(broker: Broker, queue: str) -> Callable[..., None]:
    """A function that sets a policy for the queue, or deletes it if there is no definition."""

    def set_or_delete(**definition: object) -> None:
        name = {"vhost": "/", "operator": False, "name": f"rate-{queue}"}
        spelled = {key.replace("_", "-"): value for key, value in definition.items()}
        if spelled:
            broker.call("policy_set", **name, pattern=f"^{queue}$", apply_to="queues", priority=0, definition=spelled)
        else:
            broker.call("policy_delete", **name)

    return set_or_delete


def test_who_is_too_fast_is_told_slowed_down_and_let_go(
    broker: Broker, limit: Callable[..., None], connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    channel.call("queue.declare", queue=queue)
    limit(max_rate=50, rate_burst="100 ms")
    client = connect(capabilities=CAPABILITIES)
    publisher = client.channel()
    for number in range(5000):
        publisher.publish(b"%d" % number, queue)
    assert client.take("connection.blocked").reason == f"rate of queue '{queue}' in vhost '/': 50 messages a second"
    reported = broker.penstock("flow", "--json")
    (held,) = [held for held in json.loads(reported.stdout) if queue in held["causes"][0]["text"]]
    assert held["causes"][0]["kind"] == "rate" and held["causes"][0]["resumes_in"] > 10
    why = broker.penstock("flow", "why", held["connection"]).stdout
    assert f"waits for rate of queue '{queue}'" in why
    wait_for(lambda: channel.depth(queue) > 0, what="the burst")
    assert channel.depth(queue) < 4000
    limit()
    client.take("connection.unblocked")
    assert [wait_get(channel, queue).body for _ in range(5000)] == [b"%d" % number for number in range(5000)]


def test_it_goes_on_at_its_rate(channel: Channel, queue: str, connect: Callable[..., Client]) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-max-rate": 100, "x-rate-burst": "10 ms"})
    publisher = connect().channel()
    publisher.call("confirm.select")
    for _ in range(100):
        publisher.publish(b"x", queue)
    wait_for(lambda: channel.depth(queue) == 100, what="all of it")


def test_a_dry_run_lists_who_publishes_faster_than_a_rate(
    broker: Broker, connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-max-rate": 100})
    channel.call("queue.declare", queue=f"{queue}.idle")
    client = connect(capabilities=CAPABILITIES)
    idle, busy = client.channel(), client.channel()
    idle.publish(b"x", f"{queue}.idle")
    for _ in range(10_000):
        busy.publish(b"0123456789", queue)
    client.take("connection.blocked")  # publishing goes on at 100 messages a second
    (held,) = [held for held in json.loads(broker.penstock("flow", "--json").stdout) if queue in str(held["causes"])]

    def trial(apply_to: str, pattern: str, **definition: object) -> list[tuple[int, str]]:
        spelled = json.dumps({key.replace("_", "-"): value for key, value in definition.items()})
        reported = broker.penstock("policy", "set", "trial", pattern, spelled, "--apply-to", apply_to, "--dry-run",
                               "--json")  # fmt: skip
        assert reported.returncode == 0, reported.stderr
        stopped = [each for each in json.loads(reported.stdout)["stopped"] if each["connection"] == held["connection"]]
        return [(each["channel"], each["reason"]) for each in stopped]

    def stopped(apply_to: str, pattern: str, **definition: object) -> tuple[int, str]:
        """Return the one channel stopped, once an acceptor was observed at work."""
        (found,) = wait_for(lambda: trial(apply_to, pattern, **definition), what="a session that is too fast")
        return found

    number, reason = stopped("queues", f"^{queue}", max_rate=5)
    assert number == busy.number
    assert reason.startswith(f"rate of queue '{queue}' in vhost '/': 5 messages a second: ")
    number, reason = stopped("users", "^guest$", max_rate_bytes=50)
    assert number == busy.number and reason.startswith("rate of user 'guest' in vhost '/': 50 bytes a second: ")
    assert trial("users", "^guest$", max_rate=1_000_000) == []
    assert trial("users", "^nobody$", max_rate=5) == []
    channel.call("queue.delete", queue=queue)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"x-max-rate": 0}, "'x-max-rate' for {}: {{value_zero,0}}"),
        ({"x-max-rate": -1}, "'x-max-rate' for {}: {{value_negative,-1}}"),
        ({"x-max-rate": "5"}, "'x-max-rate' for {}: \"expected integer, got longstr\""),
        ({"x-max-rate-bytes": "5 M"}, "'x-max-rate-bytes' for {}: \"the unit of '5 M' can be mistaken"),
        ({"x-rate-burst": "5"}, "'x-rate-burst' for {}: \"'5' is not a time"),
        ({"x-rate-burst": "2 h"}, "'x-rate-burst' for {}: \"'2 h' is not between 1 ms and 1 h\""),
    ],
    ids=str,
)
def test_declarations_refused(channel: Channel, queue: str, arguments: dict[str, object], reason: str) -> None:
    declaration_refused(channel, queue, arguments, reason)


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"max-rate": 0}, "key 'max-rate': 0 is too small"),
        ({"max-rate-bytes": "1 gigabyte"}, "key 'max-rate-bytes': '1 gigabyte' has an unknown unit"),
        ({"rate-burst": "soon"}, "key 'rate-burst': 'soon' is not a time"),
        ({"max-rates": 5}, "there is no key 'max-rates'; did you mean 'max-rate'?"),
    ],
    ids=str,
)
def test_policies_refused(broker: Broker, definition: dict[str, object], reason: str) -> None:
    name = f"p-{uuid4().hex[:8]}"
    with pytest.raises(Refusal) as refused:
        broker.call("policy_set", vhost="/", operator=False, name=name, pattern=".*", apply_to="exchanges", priority=0,
                    definition=definition)  # fmt: skip
    assert reason in str(refused.value)
