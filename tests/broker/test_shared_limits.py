"""Shared and inherited limits on a running node, and their description by `penstock flow explain`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from penstock.control.control import Refusal
from tests.broker import Broker
from tests.broker.flow import settled_depth
from tests.outcomes import wait_get
from tests.raw import CAPABILITIES, Channel, Client, Closed
from tests.waiting import wait_for

pytestmark = pytest.mark.broker


class Place:
    """A vhost of the test's own, with exchange x and queues a and b bound by their names."""

    def __init__(self, broker: Broker, connect: Callable[..., Client]) -> None:
        self.broker = broker
        self.name = f"v-{uuid4().hex[:8]}"
        broker.call("vhost_add", name=self.name)
        broker.call("permission_set", user="guest", vhost=self.name, configure=".*", write=".*", read=".*")
        self.client = connect(vhost=self.name, capabilities=CAPABILITIES)
        self.channel = self.client.channel()
        self.channel.call("exchange.declare", exchange="x", type="topic")
        for queue in ("a", "b"):
            self.channel.call("queue.declare", queue=queue, durable=True)
            self.channel.call("queue.bind", queue=queue, exchange="x", routing_key=queue)

    def policy(self, apply_to: str, pattern: str = ".*", node: bool = False, **definition: Any) -> None:
        """Set the policy for `apply_to` in the vhost, or with `node` the node's; without a definition, delete it."""
        spelled = {key.replace("_", "-"): value for key, value in definition.items()}
        name = {"vhost": "" if node else self.name, "operator": False, "name": f"{self.name}-{apply_to}"}
        if spelled:
            self.broker.call(
                "policy_set", **name, pattern=pattern, apply_to=apply_to, priority=0, definition=spelled
            )  # fmt: skip
        else:
            self.broker.call("policy_delete", **name)

    def explain(self, queue: str) -> dict[str, Any]:
        reported = self.broker.penstock("flow", "explain", queue, "--vhost", self.name, "--json")
        assert reported.returncode == 0, reported.stderr
        facts: dict[str, Any] = json.loads(reported.stdout)
        return facts


@pytest.fixture
def place(broker: Broker, connect: Callable[..., Client]) -> Iterator[Place]:
    place = Place(broker, connect)
    yield place
    for apply_to in ("vhosts", "node"):
        with suppress(Refusal):  # not set by the test, or deleted
            place.policy(apply_to, node=True)
    broker.call("vhost_delete", name=place.name)


def publish(channel: Channel, count: int, key: str) -> None:
    for number in range(count):
        channel.publish(b"%d" % number, key, "x")


def test_the_sum_of_an_exchange_s_queues(place: Place) -> None:
    place.policy("exchanges", "^x$", sum_length=50, sum_stop_count="40 %", sum_resume_count="20 %")
    publish(place.channel, 15, "a")
    publish(place.channel, 200, "b")
    reader = place.client.channel()
    assert place.client.take("connection.blocked").reason.startswith(
        f"exchange 'x' in vhost '{place.name}', all of 2 queues: "
    )
    depth = settled_depth(reader, "b")
    assert 5 <= depth <= 10
    for _ in range(15):
        assert reader.get("a")
    wait_for(lambda: reader.depth("b") > depth, what="more where others left room")
    place.policy("exchanges")
    place.client.take("connection.unblocked")
    wait_for(lambda: reader.depth("b") == 200, what="all of it, once there is no limit")


@pytest.mark.parametrize("apply_to", ["users", "vhosts", "routing_keys"])
def test_other_limits_over_several_queues(place: Place, apply_to: str) -> None:
    marks = {"deepest_stop_count": 20, "deepest_resume_count": 10}
    if apply_to == "routing_keys":
        marks |= {"routing_key": "wildcard:b.>"}  # type: ignore[dict-item]
    place.policy(apply_to, f"^{place.name}$" if apply_to == "vhosts" else ".*", apply_to == "vhosts", **marks)
    publish(place.channel, 200, "b")
    assert "the deepest of " in place.client.take("connection.blocked").reason
    reader = place.client.channel()
    assert 20 <= settled_depth(reader, "b") <= 24
    assert [wait_get(reader, "b").body for _ in range(200)] == [b"%d" % number for number in range(200)]


def test_inherited_limits_hold_and_go(place: Place) -> None:
    place.policy("vhosts", f"^{place.name}$", node=True, max_length=50)
    publish(place.channel, 200, "a")
    reader = place.client.channel()
    assert place.client.take("connection.blocked").reason.startswith(f"queue 'a' in vhost '{place.name}': ")
    assert 40 <= settled_depth(reader, "a") <= 48
    place.policy("exchanges", "^x$", max_length=100, flow_stop_count="100 %")
    wait_for(lambda: reader.depth("a") >= 100, what="the limit of the exchange counts before the vhost's")
    assert settled_depth(reader, "a") <= 120
    reader.call("queue.unbind", queue="b", exchange="x", routing_key="b")
    found = {each["setting"]: (each["value"], each["source"]) for each in place.explain("b")["settings"]}
    assert found["max-length"] == (50, f"policy '{place.name}-vhosts' of vhost '{place.name}': max-length")
    place.policy("exchanges")
    place.policy("vhosts", node=True)
    wait_for(lambda: reader.depth("a") == 200, what="all of it, once nobody limits it")


def test_explain(place: Place) -> None:
    arguments = {"x-max-length": 100, "x-overflow": "flow", "x-flow-resume-count": "50 %"}
    place.channel.call("queue.declare", queue="c", arguments=arguments)
    place.channel.call("queue.bind", queue="c", exchange="x", routing_key="c")
    place.policy("exchanges", "^x$", sum_stop_count=500, flow_stop_size="1 MiB")
    publish(place.channel, 7, "c")
    reader = place.client.channel()
    wait_for(lambda: reader.depth("c") == 7)
    reported = place.explain("c")
    assert {each["setting"]: each["value"] for each in reported["settings"]} == {
        "flow": "on", "overflow": "flow", "max-length": 100, "flow-stop-count": 80, "flow-resume-count": 50,
        "max-length-bytes": None, "flow-stop-size": None, "flow-resume-size": None, "stops-producers": "yes",
        "throttle": "auto", "hold": "forever",
    }  # fmt: skip
    assert (reported["messages"], reported["saturated"]) == (7, False)
    shared = reported["shared"][0]
    assert (shared["limit"], shared["how"], shared["queues"], shared["messages"], shared["stop_count"]) == (
        f"exchange 'x' in vhost '{place.name}'", "sum", 3, 7, 500,
    )  # fmt: skip
    assert (shared["over_count"], shared["over_count_bound"]) == (0, 1)
    text = place.broker.penstock("flow", "explain", "c", "--vhost", place.name).stdout
    assert reported["body_bytes"] == 7 < 7 * 64 < reported["bytes"]
    assert f"queue 'c' in vhost '{place.name}': 7 messages, {reported['bytes']} bytes (7 of bodies), open, " in text
    assert "at most 0 of 10 messages above its stop mark\n" in text
    assert "declaration: x-flow-resume-count" in text and "sum of 3" in text and "0 of 1" in text
    missing = place.broker.penstock("flow", "explain", "nobody", "--vhost", place.name)
    assert missing.stderr == f"penstock: there is no queue 'nobody' in vhost '{place.name}'\n"
    assert missing.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            {"x-flow-stop-count": 5, "x-flow-resume-count": 6},
            "'x-flow-resume-count' for {}: \"resume mark 6 is above the stop mark 5 (x-flow-stop-count)\"",
        ),
        (
            {"qpid.max_size": "1 MB", "x-flow-stop-size": "2 MB"},
            "'x-flow-stop-size' for {}: \"stop mark 2000000 is above the limit 1000000 (qpid.max_size)\"",
        ),
        (
            {"qpid.max_size": "10 M"},
            "'qpid.max_size' for {}: \"the unit of '10 M' can be mistaken: write 10 MB (1000^2) or MiB (1024^2)\"",
        ),
        ({"x-max-length-bytes": "10 MB"}, "'x-max-length-bytes' for {}: \"expected integer, got longstr\""),
    ],
)
def test_declarations_refused(channel: Channel, queue: str, arguments: dict[str, Any], reason: str) -> None:
    channel.send("queue.declare", queue=queue, arguments=arguments)
    closed = channel.closed()
    said = reason.format(f"queue '{queue}' in vhost '/'")
    assert closed.code == 406 and f"PRECONDITION_FAILED - invalid arg {said}".startswith(closed.text)


def test_unknown_arguments_are_let_pass(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-flow-stop-cuont": 5, "x-whatever": "10 M"})
    with pytest.raises(Closed, match="x-flow-stop-count"):
        channel.call("queue.declare", queue=queue, arguments={"x-flow-stop-count": 5})


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            ("--apply-to", "node"),
            "invalid policy 'p' in vhost '/': a policy that applies to node belongs to the node, not to a vhost",
        ),
        (("--node",), "invalid policy 'p' of the node: a policy that applies to all belongs to a vhost"),
    ],
)
def test_policies_of_the_node_are_told_apart(broker: Broker, words: tuple[str, ...], reason: str) -> None:
    refused = broker.penstock("policy", "set", "p", ".*", '{"max-length": 5}', *words)
    assert (refused.returncode, refused.stderr) == (2, f"penstock: {reason}\n")


def test_a_dry_run_lists_the_channels_that_a_policy_would_stop(
    place: Place, connect: Callable[..., Client], broker: Broker
) -> None:
    other = connect(vhost=place.name).channel()
    other.publish(b"x", "b")
    publish(place.channel, 30, "a")
    reader = place.client.channel()
    wait_for(lambda: (reader.depth("a"), reader.depth("b")) == (30, 1))

    def trial(*words: str, **definition: int) -> list[tuple[int, str]]:
        spelled = json.dumps({key.replace("_", "-"): value for key, value in definition.items()})
        reported = broker.penstock("policy", "set", "trial", ".*", spelled, "--vhost", place.name, *words, "--dry-run",
                               "--json")  # fmt: skip
        assert reported.returncode == 0, reported.stderr
        return [(each["channel"], each["reason"]) for each in json.loads(reported.stdout)["stopped"]]

    queue = f"queue 'a' in vhost '{place.name}': 30 of 29 messages"
    assert trial(flow_stop_count=29) == [(place.channel.number, queue)]
    assert trial(flow_stop_count=30) == []
    exchange = f"exchange 'x' in vhost '{place.name}', sum of 2 queues: 31 of 20 messages"
    assert trial("--apply-to", "exchanges", sum_stop_count=20) == [(place.channel.number, exchange)]
    assert trial("--apply-to", "users", sum_stop_count=31) == []
    assert len(trial("--apply-to", "users", sum_stop_count=20)) == 2
    reported = broker.penstock(
        "policy", "set", "trial", ".*", '{"flow-stop-count": 5}', "--vhost", place.name, "--dry-run"
    )
    assert reported.stdout.startswith("policy 'trial' is not set; it would stop 1 channels now\nqueue 'a' in vhost ")
    assert broker.call("policy_list", vhost=place.name) == []
    publish(place.channel, 5, "a")
    wait_for(lambda: reader.depth("a") == 35, what="nothing is held")
