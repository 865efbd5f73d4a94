"""Operators and held producers: `penstock flow` and operators' stops."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.flow import command
from tests.broker import Broker
from tests.broker.flow import MARKS, SIZE, STOP, wait_held
from tests.outcomes import wait_get
from tests.producers import Producers
from tests.raw import CAPABILITIES, Address, Channel, Client
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

SLOW_PREFETCH = 20


@pytest.fixture
def flow(broker: Broker) -> Iterator[Callable[..., Any]]:
    """A function that runs `penstock flow` and returns its JSON, in this process for speed; stops are lifted at the
    end.
    """

    def run(*arguments: str) -> Any:
        words = [*arguments[:1], "--data", str(broker.directory / "data"), "--json", *arguments[1:]]
        done = CliRunner().invoke(command.app, words)
        assert done.exit_code == 0, done.exception
        return json.loads(done.stdout)

    yield run
    for stop in run("stops"):
        run("start", str(stop["number"]))


def held_on(flow: Callable[..., Any], queue: str) -> list[dict[str, Any]]:
    return [held for held in flow() if any(cause.get("name") == queue for cause in held["causes"])]


@pytest.mark.parametrize(
    "selector",
    [["--all"], ["--vhost", "/"], ["--exchange", "amq.direct"], ["--queue", "QUEUE"], ["--key", "eu.#"],
     ["--user", "guest"], ["--exchange", "amq.direct", "--key", "eu.*", "--user", "guest"]],
    ids=" ".join,
)  # fmt: skip
def test_stop_and_start(
    flow: Callable[..., Any], connect: Callable[..., Client], channel: Channel, queue: str, selector: list[str]
) -> None:
    """Stopped publishes wait in order, and the client learns by whom; after the start they are sent."""
    selector = [queue if word == "QUEUE" else word for word in selector]
    channel.call("queue.declare", queue=queue)
    channel.call("queue.bind", queue=queue, exchange="amq.direct", routing_key="eu.west")
    client = connect(properties={"capabilities": CAPABILITIES})
    publisher = client.channel()
    (stop,) = flow("stop", *selector, "--reason", "a rest", "--for", "1h")
    assert stop["until"] == pytest.approx(stop["since"] + 3600)
    for number in range(5):
        publisher.publish(b"%d" % number, "eu.west", exchange="amq.direct")
    blocked = client.take("connection.blocked")
    assert blocked.reason == f"stopped by {stop['author']}: a rest"
    assert channel.depth(queue) == 0
    (held,) = [each for each in flow() if each["causes"][0].get("number") == stop["number"]]
    assert held["causes"][0]["resumes_in"] == pytest.approx(3600, abs=600)
    flow("start", *selector)
    client.take("connection.unblocked")
    assert [wait_get(channel, queue).body for _ in range(5)] == [b"%d" % number for number in range(5)]


@pytest.mark.parametrize(
    "selector",
    [["--exchange", "amq.topic"], ["--queue", "another"], ["--key", "us.*"], ["--user", "nobody"],
     ["--connection", "0.999.1"], ["--queue", "QUEUE", "--user", "nobody"]],
    ids=" ".join,
)  # fmt: skip
def test_others_go_on(flow: Callable[..., Any], channel: Channel, queue: str, selector: list[str]) -> None:
    channel.call("queue.declare", queue=queue)
    channel.call("queue.bind", queue=queue, exchange="amq.direct", routing_key="eu.west")
    flow("stop", *[queue if word == "QUEUE" else word for word in selector])
    channel.publish(b"goes", "eu.west", exchange="amq.direct")
    assert wait_get(channel, queue).body == b"goes"


def test_one_connection(flow: Callable[..., Any], connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    """The name of the connection is the one shown among held channels and in the log. Consuming and acking go on."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    publisher = connect(properties={"capabilities": CAPABILITIES}).channel()
    for number in range(2 * STOP):
        publisher.publish(b"%d" % number, queue)
    wait_for(lambda: held_on(flow, queue), what="a held session")
    (held,) = held_on(flow, queue)
    flow("stop", "--connection", held["connection"])
    assert [wait_get(channel, queue).body for _ in range(STOP)] == [b"%d" % number for number in range(STOP)]
    channel.publish(b"another's", queue)
    wait_for(lambda: flow()[0]["causes"][0]["kind"] == "stop", what="the operator's stop as the cause")
    again = publisher.client.take("connection.blocked")
    while not again.reason.startswith("stopped by"):
        again = publisher.client.take("connection.blocked", timeout=30)
    flow("start", "--connection", held["connection"])
    rest = [wait_get(channel, queue).body for _ in range(STOP + 1)]
    assert [body for body in rest if body != b"another's"] == [b"%d" % number for number in range(STOP, 2 * STOP)]


def test_what_goes_nowhere_waits_as_well(
    flow: Callable[..., Any], connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    """An exchange can be bound anew behind a stop without losing anything."""
    publisher = connect().channel()
    flow("stop", "--exchange", "amq.direct")
    publisher.publish(b"to be routed", f"{queue}.key", exchange="amq.direct")
    channel.call("queue.declare", queue=queue)
    channel.call("queue.bind", queue=queue, exchange="amq.direct", routing_key=f"{queue}.key")
    flow("start", "--exchange", "amq.direct")
    assert wait_get(channel, queue).body == b"to be routed"


def test_a_stop_ends_by_itself(flow: Callable[..., Any], channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    flow("stop", "--queue", queue, "--for", "500 ms")
    channel.publish(b"later", queue)
    assert wait_get(channel, queue).body == b"later"
    wait_for(lambda: flow("stops") == [], what="no stop any more")


def test_a_transaction_waits_for_a_stop(
    flow: Callable[..., Any], connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    channel.call("queue.declare", queue=queue)
    publisher = connect().channel()
    publisher.call("tx.select")
    flow("stop", "--queue", queue)
    publisher.publish(b"in a transaction", queue)
    publisher.send("tx.commit")
    wait_for(lambda: [held for held in flow() if held["causes"][0]["kind"] == "stop"], what="a held commit")
    assert channel.depth(queue) == 0
    flow("start", "--queue", queue)
    publisher.take("tx.commit-ok")
    assert wait_get(channel, queue).body == b"in a transaction"


def test_a_stop_survives_the_node(tmp_path: Path) -> None:
    """All stops survive a restart but those of single connections."""
    with Broker(tmp_path) as broker:
        made = [json.loads(broker.penstock("flow", "stop", *words, "--json").stdout)[0]
                for words in (["--queue", "q", "--reason", "why"], ["--connection", "0.1.1"])]  # fmt: skip
        broker.stop()
        broker.start()
        assert json.loads(broker.penstock("flow", "stops", "--json").stdout) == made[:1]
        assert "why" in broker.penstock("flow", "stops").stdout


def test_who_is_held_and_why(
    broker: Broker, flow: Callable[..., Any], address: Address, connect: Callable[..., Client], queue: str
) -> None:
    consumer = connect(properties={"product": "slow one"}).channel()
    consumer.call("queue.declare", queue=queue, arguments=MARKS)
    consumer.call("basic.qos", prefetch_count=SLOW_PREFETCH)
    consumer.call("basic.consume", queue=queue, consumer_tag="slow")
    own = ":".join(map(str, consumer.client.socket.getsockname()))
    with Producers(address, [queue], size=SIZE, count=10_000) as producers:
        wait_held(consumer, queue, producers)
        held = held_on(flow, queue)
        assert len(held) >= 1
        assert held[0]["held_seconds"] > 0 and held[0]["user"] == "guest" and held[0]["parked_bytes"] > 0
        (cause,) = held[0]["causes"]
        assert (cause["kind"], cause["vhost"], cause["resumes_in"]) == ("queue", "/", None)
        assert cause["text"].startswith(f"queue '{queue}' in vhost '/': ")
        reported = broker.penstock("flow", "why", held[0]["connection"]).stdout
        assert f"connection {held[0]['connection']} (" in reported
        assert f"  waits for queue '{queue}' in vhost '/': " in reported
        assert "    nothing leaves it\n    1 consumer:\n" in reported
        assert f"(slow one, {own}): prefetch full: {SLOW_PREFETCH} of {SLOW_PREFETCH} unacked" in reported
        assert "no ack yet" in reported
        table = broker.penstock("flow").stdout
        assert held[0]["connection"] in table and "unknown" in table
        consumer.send("basic.ack", delivery_tag=1)
        wait_for(lambda: "last ack" in broker.penstock("flow", "why", held[0]["connection"]).stdout, what="an ack")


def test_a_circle_of_held_clients_is_seen(
    broker: Broker, flow: Callable[..., Any], connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    """Each client consumes from the queue that the other fills, up to a prefetch of one."""
    names = [f"{queue}-a", f"{queue}-b"]
    clients = [connect().channel() for _ in names]
    for name, client in zip(names, clients, strict=True):
        client.call("queue.declare", queue=name, arguments=MARKS)
    for client, own, other in zip(clients, names, reversed(names), strict=True):
        client.call("basic.qos", prefetch_count=1)
        client.call("basic.consume", queue=own)
        for number in range(2 * STOP):
            client.publish(b"%d" % number, other)
    wait_for(lambda: all(held_on(flow, name) for name in names), what="two held channels")
    (first,) = held_on(flow, names[1])
    reported = broker.penstock("flow", "why", first["connection"]).stdout
    assert reported.rstrip().endswith(f"connection {first['connection']} is held itself, see above: a circle")
    for name in names:
        channel.call("queue.delete", queue=name)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["stop"], "give --all, or any of --vhost"),
        (["stop", "--all", "--queue", "q"], "give --all, or any of --vhost"),
        (["stop", "--all", "--for", "soon"], "--for: 'soon' is not a time"),
        (["stop", "--vhost", "none"], "there is no vhost 'none'"),
        (["start", "--queue", "never stopped"], "there is no such stop"),
        (["start", "4711"], "there is no stop 4711"),
        (["why", "0.0.0"], "connection 0.0.0 is not held"),
    ],
)
def test_one_line_for_what_cannot_be(broker: Broker, words: list[str], text: str) -> None:
    done = broker.penstock("flow", *words)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(f"penstock: {text}") and done.stderr.count("\n") == 1
