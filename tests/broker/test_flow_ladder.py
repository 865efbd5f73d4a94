"""Ladders on a running node (`x-hold`): producers held for a bounded time, and the rungs that follow."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pika
import pika.exceptions
import pytest

from tests.broker import Broker
from tests.broker.flow import MARKS, STOP
from tests.broker.ways import each_way
from tests.outcomes import wait_get
from tests.raw import Address, Channel, Client, Closed
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("broker")]


def full(channel: Channel, queue: str, hold: str) -> None:
    """Declare a queue and fill it above its stop mark from another channel."""
    channel.call("queue.declare", queue=queue, arguments={**MARKS, "x-hold": hold})
    filler = channel.client.channel()
    for number in range(STOP + 1):
        filler.publish(b"%d" % number, queue)
    wait_for(lambda: channel.depth(queue) > STOP)


def reported(broker: Broker, queue: str, event: str = "escalation") -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in broker.log.splitlines() if queue in line]
    return [line for line in lines if line["event"] == event]


@pytest.fixture
def listener(connect: Callable[..., Client], queue: str) -> Iterator[Callable[[], dict[str, Any]]]:
    channel, name = connect().channel(), f"{queue}-events"
    channel.call("queue.declare", queue=name)
    channel.call("queue.bind", queue=name, exchange="amq.flow", routing_key=f"escalation./.{queue}")
    yield lambda: json.loads(wait_get(channel, name).body)
    channel.call("queue.delete", queue=name)


@each_way
def test_rejected(
    broker: Broker, connect: Callable[..., Client], channel: Channel, queue: str,
    listener: Callable[[], dict[str, Any]],
) -> None:  # fmt: skip
    """A publish is nacked and returned with the reason, counted, logged and announced; later there is room again."""
    full(channel, queue, "park 1 s, pause 1 s, reject")
    client = connect()
    publisher = client.channel()
    publisher.call("confirm.select")
    publisher.publish(b"too much", queue, mandatory=True)
    returned = publisher.take("basic.return")
    assert (returned.code, returned.body) == (311, b"too much")
    headers = returned.properties["headers"]
    assert headers["x-flow-queue"] == queue and headers["x-flow-count"] > headers["x-flow-stop-count"] == STOP
    assert publisher.take("basic.nack").delivery_tag == 1
    rungs = []
    while rungs[-1:] != ["reject"]:
        event = listener()
        rungs += [event["rung"]] if event["channel"] == publisher.number else []
    assert event["queue"] == queue and event["seconds"] >= 2
    assert {line["rung"] for line in reported(broker, queue)} == {"pause", "reject"}
    status = json.loads(broker.penstock("status", "--json").stdout)
    assert sum(process["rung_reject"] for process in status["processes"]) >= 1
    assert sum(process["refused"] for process in status["processes"]) >= 1
    for _ in range(STOP + 1):
        wait_get(channel, queue)
    client.take("connection.unblocked")
    publisher.publish(b"again", queue)
    assert publisher.take("basic.ack").delivery_tag == 2
    assert wait_get(channel, queue).body == b"again"


def test_operators_see_the_rung(broker: Broker, connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    full(channel, queue, "park 10 min, reject")
    client = connect()
    client.channel().publish(b"too much", queue)
    client.take("connection.blocked")
    (held,) = [held for held in broker.held() if held["causes"][0].get("name") == queue and held["parked_bytes"]]
    assert (held["rung"]["name"], held["rung"]["next"]) == ("park", "reject")
    assert "on rung park" in broker.penstock("flow", "why", held["connection"]).stdout


@each_way
def test_the_channel_is_closed_and_then_the_connection(
    connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    full(channel, queue, "park 500 ms, close-channel 10 min, close-connection")
    close_both(connect(), queue)


def close_both(client: Client, queue: str) -> None:
    """Publish to a full queue until the channel is closed, and again until the connection is."""
    for code, name in ((311, "CONTENT_TOO_LARGE"), (506, "RESOURCE_ERROR")):
        publisher = client.channel()
        publisher.publish(b"too much", queue)
        with pytest.raises(Closed) as closed:
            publisher.take("nothing")
        assert closed.value.code == code
        assert closed.value.text.startswith(f"{name} - queue '{queue}' in vhost '/': ")
        if code == 311:
            publisher.send("channel.close-ok")


@pytest.fixture
def login(broker: Broker) -> Iterator[dict[str, str]]:
    """A user of the test's own, because a hold-off applies to a user and an address."""
    name = f"user-{uuid4().hex[:8]}"
    broker.penstock("user", "add", name, given="secret\n")
    broker.call("permission_set", user=name, vhost="/", configure=".*", write=".*", read=".*")
    yield {"user": name, "password": "secret"}
    broker.call("flow_readmit", user=name, host=None)


@each_way
def test_every_rung_is_reached_in_order(
    address: Address, channel: Channel, queue: str, login: dict[str, str], listener: Callable[[], dict[str, Any]]
) -> None:
    """The channel that is opened again climbs all but the rung that has closed the first."""
    times = "withhold 300 ms, park 300 ms, pause 300 ms, reject 300 ms, close-channel 10 min"
    full(channel, queue, f"{times}, close-connection, hold-off 2 min")
    with Client.connect(address, **login) as client:
        close_both(client, queue)
    wait_for(lambda: not connects(address, login))
    rungs: list[str] = []
    while rungs[-1:] != ["hold-off"]:
        event = listener()
        rungs += [event["rung"]] if event["user"] == login["user"] else []
    milder = ["park", "pause", "reject"]
    assert rungs == [*milder, "close-channel", *milder, "close-connection", "hold-off"]


@each_way
def test_held_off_at_the_next_connect(
    broker: Broker, address: Address, channel: Channel, queue: str, login: dict[str, str]
) -> None:
    """A hold-off applies at every acceptor; an operator sees it and lifts it. Other users can connect."""
    full(channel, queue, "close-connection, hold-off 2 min")
    with Client.connect(address, **login) as client:
        client.channel().publish(b"too much", queue)
        ended = client.ended()
        assert isinstance(ended, Closed) and ended.code == 506
    wait_for(lambda: not connects(address, login))
    for _ in range(8):
        with pytest.raises(Closed) as refused:
            Client.connect(address, **login)
        assert refused.value.code == 530
        text = f"NOT_ALLOWED - connection refused for user '{login['user']}' from 127.0.0.1: held off for another "
        assert refused.value.text.startswith(text)
        assert queue in refused.value.text
    Client.connect(address).close()
    listed = json.loads(broker.penstock("flow", "hold-offs", "--json").stdout)
    (found,) = [each for each in listed if each["user"] == login["user"]]
    assert (found["host"], found["times"]) == ("127.0.0.1", 1)
    assert found["until"] - found["since"] == pytest.approx(120)
    assert broker.penstock("flow", "hold-offs", "clear", "--user", login["user"]).returncode == 0
    wait_for(lambda: connects(address, login))
    (line,) = [line for line in reported(broker, queue, "hold-off") if line["user"] == login["user"]]
    assert (line["times"], line["seconds"]) == (1, 120)


def test_a_hold_off_ends_by_itself(
    broker: Broker, address: Address, channel: Channel, queue: str, login: dict[str, str]
) -> None:
    full(channel, queue, "close-connection, hold-off 2 s")
    with Client.connect(address, **login) as client:
        client.channel().publish(b"too much", queue)
        client.ended()
    wait_for(lambda: [found for found in broker.call("flow_hold_offs") if found["user"] == login["user"]])
    wait_for(lambda: connects(address, login), 60)
    (found,) = [found for found in broker.call("flow_hold_offs") if found["user"] == login["user"]]
    assert time.time() >= found["until"]


def connects(address: Address, login: dict[str, str]) -> bool:
    try:
        Client.connect(address, **login).close()
    except Closed:
        return False
    return True


def test_a_client_library_gets_an_error(broker: Broker, url: str, channel: Channel, queue: str) -> None:
    """With confirms, a publish of pika fails instead of waiting for ever."""
    full(channel, queue, "park 500 ms, reject")
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        publisher = connection.channel()
        publisher.confirm_delivery()
        with pytest.raises(pika.exceptions.NackError):
            publisher.basic_publish("", queue, b"too much")
        with pytest.raises(pika.exceptions.NackError) as nacked:
            publisher.basic_publish("", queue, b"too much", mandatory=True)
        (message,) = nacked.value.messages
        assert message.properties.headers["x-flow-queue"] == queue


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("rejekt", "\"'rejekt' is not a rung; did you mean 'reject'?\""),
        ("reject 5 s, park", "\"'park' does not come after 'reject': the order is withhold, park, pause,"),
    ],
)
def test_what_cannot_be(channel: Channel, queue: str, value: str, reason: str) -> None:
    with pytest.raises(Closed) as closed:
        channel.call("queue.declare", queue=queue, arguments={"x-hold": value})
    assert closed.value.code == 406
    reported = f"PRECONDITION_FAILED - invalid arg 'x-hold' for queue '{queue}' in vhost '/': {reason}"
    assert closed.value.text.startswith(reported)
