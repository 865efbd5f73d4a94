"""Limits on connections, channels and queues: of the node, a vhost, a user, an address."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from acceptor.budgets.headcount import ADMINISTRATORS
from tests.broker import Broker
from tests.frames import Event
from tests.raw import Channel, Client, Closed
from tests.router.making import rabbit_hash
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

Open = Callable[..., Client]


class Account:
    """A user and a vhost of its own."""

    def __init__(self, broker: Broker, *tags: str) -> None:
        self.broker = broker
        self.user, self.vhost = f"u-{uuid4().hex[:8]}", f"v-{uuid4().hex[:8]}"
        broker.call("user_add", name=self.user, password_hash=rabbit_hash("secret"), tags=list(tags))
        broker.call("vhost_add", name=self.vhost)
        broker.call("permission_set", user=self.user, vhost=self.vhost, configure=".*", write=".*", read=".*")

    def limit(self, scope: str, **limits: int) -> None:
        said = json.dumps({f"max-{counted}": number for counted, number in limits.items()})
        done = self.broker.penstock(scope, "set-limits", getattr(self, scope), said)
        assert done.returncode == 0, done.stderr

    def open(self, connect: Open) -> Client:
        return connect(user=self.user, password="secret", vhost=self.vhost)

    def refusal(self, connect: Open) -> str | None:
        """Return the reason why the login is refused, None if it is not."""
        try:
            self.open(connect)
        except Closed as closed:
            return f"{closed.code} {closed.text}"
        return None

    def used(self, scope: str, *options: str) -> dict[str, int]:
        done = self.broker.penstock(scope, "list-limits", "--json", *options)
        assert done.returncode == 0, done.stderr
        return {row["limit"]: row["used"] for row in json.loads(done.stdout) if row["name"] == getattr(self, scope)}


@pytest.fixture
def account(broker: Broker) -> Account:
    return Account(broker)


def test_connections_of_a_vhost_over_all_acceptors(account: Account, connect: Open) -> None:
    first = account.open(connect)
    account.limit("vhost", connections=5)
    others = [account.open(connect) for _ in range(4)]
    assert account.refusal(connect) == (
        f"530 NOT_ALLOWED - access to vhost '{account.vhost}' refused for user '{account.user}': "
        "connection limit (5) is reached"
    )
    assert account.used("vhost") == account.used("vhost", "--near") == {"max-connections": 5}
    others.pop().close()
    wait_for(lambda: not account.used("vhost", "--near"))
    wait_for(lambda: account.refusal(connect) is None)
    assert first.channel().call("queue.declare", exclusive=True).queue


def test_connections_and_channels_of_a_user(account: Account, connect: Open) -> None:
    account.limit("user", connections=2, channels=3)
    one, two = account.open(connect), account.open(connect)
    assert account.refusal(connect) == (
        f"530 NOT_ALLOWED - connection refused for user '{account.user}': user connection limit (2) is reached"
    )
    channels = [one.channel(), two.channel(), one.channel()]
    with pytest.raises(Closed) as refused:
        two.channel()
    assert refused.value.code == 530
    assert refused.value.text == (
        f"NOT_ALLOWED - number of channels opened for user '{account.user}' has reached the maximum allowed user limit "
        "of (3)"
    )
    assert {name: account.used("user")[name] for name in ("max-channels", "max-connections")} == {
        "max-channels": 2, "max-connections": 2,
    }  # fmt: skip
    channels[0].call("channel.close")
    one.channel()


def test_queues_of_a_vhost(account: Account, connect: Open) -> None:
    account.limit("vhost", queues=1)
    channel = account.open(connect).channel()
    channel.call("queue.declare", queue="one", exclusive=True)
    channel.send("queue.declare", queue="two", exclusive=True)
    assert channel.closed().text == (
        f"PRECONDITION_FAILED - cannot declare queue 'two': queue limit in vhost '{account.vhost}' (1) is reached"
    )
    assert account.used("vhost") == {"max-queues": 1}


def test_a_limit_is_kept_over_the_death_of_an_acceptor(account: Account, connect: Open, broker: Broker) -> None:
    """The connections of an acceptor that died count until the next one in its place begins to count."""

    def opened() -> Client | None:
        try:
            return account.open(connect)
        except Closed:
            return None

    account.limit("user", connections=2)
    account.open(connect), account.open(connect)
    for index in range(2):
        broker.wait_replaced("acceptor", broker.kill("acceptor", index))
        broker.connect().close()
    for _ in range(2):
        wait_for(opened, what="room for a connection")
    assert account.refusal(connect) is not None


def test_the_status_shows_limits_that_are_near(account: Account, connect: Open, broker: Broker) -> None:
    def near() -> set[tuple[str, str, int, int]]:
        limits = json.loads(broker.penstock("status", "--json").stdout)["limits"]
        own = [row for row in limits if row["name"] in (account.user, account.vhost)]
        return {(row["limit"], row["whose"], row["used"], row["number"]) for row in own}

    account.limit("user", connections=4, channels=3, queues=1)
    account.limit("vhost", connections=3)
    clients = [account.open(connect) for _ in range(3)]
    channels = [client.channel() for client in clients]
    channels[0].call("queue.declare", queue="one")
    full = {("max-channels", "user", 3, 3), ("max-connections", "vhost", 3, 3)}
    wait_for(lambda: near() == full | {("max-queues", "user", 1, 1)}, what="all that is near")
    text = broker.penstock("status").stdout
    assert f"user {account.user}" in text and f"vhost {account.vhost}" in text
    channels[0].call("queue.delete", queue="one")
    clients[2].close()
    wait_for(lambda: not near(), what="nothing near")
    account.limit("user", connections=2)
    assert near() == {("max-connections", "user", 2, 2)}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Broker]:
    """A node with room for a few connections."""
    limits = {"PENSTOCK_LIMITS__CONNECTIONS": "3", "PENSTOCK_LIMITS__ADDRESS_CONNECTIONS": "6"}
    with Broker(tmp_path, acceptors=2, shards=1, environment=limits) as broker:
        yield broker


def test_a_node_keeps_slots_for_its_administrators(small: Broker) -> None:
    user, administrator = Account(small), Account(small, "administrator")
    opened: list[Client] = []

    def connect(**options: Any) -> Client:
        opened.append(Client.connect(small.address, **options))
        return opened[-1]

    for _ in range(3):
        user.open(connect)
    assert user.refusal(connect) == "530 NOT_ALLOWED - connection refused: node connection limit (3) is reached"
    for _ in range(3):
        administrator.open(connect)
    assert 3 + ADMINISTRATORS > 6
    assert administrator.refusal(connect) == (
        "530 NOT_ALLOWED - connection refused from 127.0.0.1: connection limit of an address (6) is reached"
    )
    for client in opened:
        client.close()


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Broker]:
    """A node on which an address may open one connection a second."""
    limit = {"PENSTOCK_LIMITS__ADDRESS_CONNECTION_RATE": "1"}
    with Broker(tmp_path, acceptors=2, shards=1, environment=limit) as broker:
        yield broker


def test_connections_that_come_too_often(slow: Broker) -> None:
    def refusal() -> str | None:
        try:
            Client.connect(slow.address).close()
        except Closed as closed:
            return f"{closed.code} {closed.text}"
        return None

    def counted() -> int:
        done = slow.penstock("status", "--json")
        return sum(process["refused_connections"] for process in json.loads(done.stdout)["processes"])

    refused = (
        "530 NOT_ALLOWED - connection refused from 127.0.0.1: connection rate limit of an address (1 a second) is "
        "reached"
    )
    assert wait_for(refusal, what="a refusal") == refused
    wait_for(lambda: refusal() is None, what="a connection")
    wait_for(counted, what="refused connections in the status")
    assert "connection rate limit of an address" in slow.log


def test_what_a_user_has_in_hand(tmp_path: Path) -> None:
    limits = {"PENSTOCK_LIMITS__USER_UNACKED_MESSAGES": "5", "PENSTOCK_LIMITS__USER_UNACKED_BYTES": "-1"}
    with Broker(tmp_path, acceptors=2, shards=1, environment=limits) as broker:
        one, two, other = (Client.connect(broker.address) for _ in range(3))
        queue = other.channel().call("queue.declare").queue
        channels = [client.channel() for client in (one, two)]
        for channel in channels:
            channel.call("basic.consume", queue=queue)
        publisher = other.channel()
        for _ in range(9):
            publisher.publish(b"x", routing_key=queue)
        wait_for(lambda: publisher.depth(queue) == 4, what="all that its connections may have")
        wait_for(lambda: sum(len(of(channel)) for channel in channels) == 5, what="what they have")
        near = ("unacked-messages-at-shard-0", "user", "guest", 5, 5)
        wait_for(lambda: near in limits_shown(broker), what="the limit in the status")
        last = {channel: of(channel)[-1].delivery_tag for channel in channels if of(channel)}
        for channel, tag in last.items():
            channel.send("basic.ack", delivery_tag=tag, multiple=True)
        wait_for(lambda: publisher.depth(queue) == 0, what="the rest")
        assert "their user is at its unacked limit" in broker.log
        wait_for(lambda: not limits_shown(broker), what="nothing near")
        for client in (one, two, other):
            client.close()


def limits_shown(broker: Broker) -> set[tuple[str, str, str, int, int]]:
    """Return the limits that the status shows as near."""
    limits = json.loads(broker.penstock("status", "--json").stdout)["limits"]
    return {(row["limit"], row["whose"], row["name"], row["used"], row["number"]) for row in limits}


def of(channel: Channel) -> list[Event]:
    """Return the deliveries that a channel has received."""
    return [event for event in channel.pending() if event.name == "basic.deliver"]
