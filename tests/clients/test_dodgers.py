"""Real clients that evade being held: one publishes on after its flow-ok, others reconnect at once."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import aio_pika
import amqp  # type: ignore[import-untyped]
import pika
import pika.exceptions
import pytest

from tests.broker import Broker
from tests.broker.flow import MARKS, STOP
from tests.clients import amqplib
from tests.clients.hold import PATIENT
from tests.outcomes import wait_get
from tests.raw import Channel, Client
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("broker")]


@pytest.fixture
def user(broker: Broker) -> Iterator[str]:
    """A user of the test's own, whose password is `secret`."""
    name = f"user-{uuid4().hex[:8]}"
    broker.penstock("user", "add", name, given="secret\n")
    broker.call("permission_set", user=name, vhost="/", configure=".*", write=".*", read=".*")
    yield name
    broker.call("flow_readmit", user=name, host=None)
    broker.call("user_delete", name=name)


@pytest.fixture
def stopped_by_flow(broker: Broker, user: str) -> Iterator[None]:
    """A policy that holds this user's clients by channel.flow."""
    policy = {"vhost": "/", "operator": False, "name": user}
    broker.call(
        "policy_set", **policy, pattern=f"^{user}$", apply_to="users", priority=0,
        definition={"throttle": "flow, park, pause"},
    )  # fmt: skip
    yield
    broker.call("policy_delete", **policy)


@pytest.mark.usefixtures("stopped_by_flow")
def test_py_amqp_answers_and_publishes_on(broker: Broker, channel: Channel, queue: str, user: str) -> None:
    """py-amqp publishes on after its flow-ok: the broker detects that, and no publish is lost."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    address = f"{broker.address.host}:{broker.address.port}"
    with amqp.Connection(address, userid=user, password="secret", socket_settings=PATIENT) as connection:
        publisher, sent = connection.channel(), 0

        def publish_on() -> list[dict[str, Any]]:
            """Publish, and return the held channel once it is detected: publishes before channel.flow do not count."""
            nonlocal sent
            first = sent + 1
            for sent in range(first, first + STOP - 1):
                publisher.basic_publish(amqp.Message(b"%d" % sent), routing_key=queue)
            return [each for each in broker.held() if each["user"] == user and each["ignores_flow"]]

        (held,) = wait_for(publish_on)
        assert held["client"].startswith("py-amqp") and held["notified_by"] == ["flow"]
        bodies = [wait_get(channel, queue).body for _ in range(sent)]
        assert bodies == [b"%d" % number for number in range(1, sent + 1)]
        assert publisher.queue_declare("", exclusive=True).queue


@pytest.fixture
def full(channel: Channel, queue: str) -> str:
    """A full queue that ends the connections of producers it holds."""
    arguments = {**MARKS, "x-hold": "park 500 ms, close-connection, hold-off 2 min"}
    channel.call("queue.declare", queue=queue, arguments=arguments)
    filler = channel.client.channel()
    for number in range(STOP + 1):
        filler.publish(b"%d" % number, queue)
    wait_for(lambda: channel.depth(queue) > STOP)
    return queue


def dodge_with_pika(url: str, queue: str) -> str:
    """Reconnect and publish after every disconnect, until the connection is refused; return the error."""
    while True:
        try:
            with pika.BlockingConnection(pika.URLParameters(url)) as connection:
                publisher = connection.channel()
                publisher.confirm_delivery()
                publisher.basic_publish("", queue, b"again")
        except pika.exceptions.AMQPError as error:
            if "held off" in str(error):
                return str(error)


def dodge_with_py_amqp(url: str, queue: str) -> str:
    parts = urlsplit(url)
    while True:
        try:
            connection = amqp.Connection(f"{parts.hostname}:{parts.port}", userid=parts.username, password="secret")
            connection.connect()
            connection.channel().basic_publish(amqp.Message(b"again"), routing_key=queue)
            while True:
                connection.drain_events(timeout=30)
        except (amqp.exceptions.AMQPError, OSError) as error:
            if "held off" in str(error):
                return str(error)


def dodge_with_aio_pika(url: str, queue: str) -> str:
    """As with pika, but the error does not have the broker's reason."""

    async def publish() -> None:
        async with await aio_pika.connect(url) as connection:
            publisher = await connection.channel()
            await publisher.default_exchange.publish(aio_pika.Message(b"again"), routing_key=queue)

    while True:
        try:
            asyncio.run(publish())
        except (aio_pika.exceptions.AMQPError, OSError) as error:
            if "got <Connection.Close" in str(error):
                return str(error)


def dodge_with_amqplib(url: str, queue: str) -> str:
    """As with pika, but the output does not have the broker's reason."""
    done = subprocess.run(
        ["node", amqplib.PROGRAMS / "dodge.js", url, queue],
        env=amqplib.environment(),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("dodge", "refusal"),
    [
        (dodge_with_pika, "connection refused for user '{user}' from 127.0.0.1"),
        (dodge_with_py_amqp, "connection refused for user '{user}' from 127.0.0.1"),
        (dodge_with_aio_pika, "Expected one of ['Connection.OpenOk'], got <Connection.Close"),
        (dodge_with_amqplib, "Expected ConnectionOpenOk; got <ConnectionClose"),
    ],
    ids=["pika", "py-amqp", "aio-pika", "amqplib"],
)
def test_who_comes_back_at_once_is_held_off(
    broker: Broker,
    connect: Callable[..., Client],
    full: str,
    user: str,
    dodge: Callable[[str, str], str],
    refusal: str,
) -> None:
    url = f"amqp://{user}:secret@{broker.address.host}:{broker.address.port}/"
    assert refusal.format(user=user) in dodge(url, full)
    (found,) = [found for found in broker.call("flow_hold_offs") if found["user"] == user]
    assert found["times"] == 1
    connect().channel()
