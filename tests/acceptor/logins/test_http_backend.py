"""An HTTP service decides on users, and on each thing that they do; clients wait for it, others do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from acceptor.clients.connection_stage import ConnectionStage
from acceptor.logins.guesses import FREE
from router.model.policy_keys import BY_DESTINATION, OVERTAKING
from tests.acceptor.logins.service import Fields, Service, serving
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

Work = tuple[Callable[[], Any], Callable[[Any], None]]


class Asking:
    """A joined node that asks a service, in a background that the test runs."""

    def __init__(self, node: Node, service: Service) -> None:
        self.node = node
        self.service = service
        self.work: list[Work] = []
        (calling,) = node.core(0).authentication.calling
        calling.background = lambda do, done: self.work.append((do, done))

    def answer(self) -> int:
        """Let the service answer what was asked, and everything settle; return how many calls that took."""
        calls = 0
        while self.work:
            calls += len(self.work)
            work, self.work = self.work, []
            for do, done in work:
                done(do())
            self.node.settle()
        return calls

    def connect(self, user: str = "bob", properties: dict[str, Any] | None = None) -> Client:
        """Return a client that has sent its handshake, and channel.open, at once."""
        client = self.node.visit(properties=properties, user=user)
        client.log_in()
        client.send("channel.open", 1)
        self.node.settle()
        return client

    def opened(self, user: str = "bob", properties: dict[str, Any] | None = None) -> Client:
        """Return a client with an open channel."""
        client = self.connect(user, properties)
        self.answer()
        client.take("channel.open-ok", 1)
        client.events[0].clear()
        self.service.asked.clear()
        return client

    def call(self, client: Client, name: str, **arguments: Any) -> None:
        """Send a method on channel 1, and let everything be answered."""
        client.send(name, 1, **arguments)
        self.node.settle()
        self.answer()

    def waits(self, seconds: float) -> None:
        """Let time pass, and the acceptor tick."""
        self.node.now += seconds
        core = self.node.core(0)
        core.state.now = self.node.now
        core.expire_rights()
        self.node.settle()


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with serving() as service:
        yield service


@pytest.fixture
def service(running: Service) -> Service:
    running.asked.clear()
    running.status = 200
    running.decide = lambda path, fields: "allow"
    return running


@pytest.fixture
def asking(service: Service) -> Iterator[Asking]:
    with Node(**service.settings()) as node:
        yield Asking(node, service)


def error_of(client: Client, channel: int = 0) -> tuple[int, str]:
    close = client.take("connection.close" if channel == 0 else "channel.close", channel)
    return close.arguments["code"], close.arguments["text"]


def test_a_client_is_asked_about_and_then_its_vhost(asking: Asking, service: Service) -> None:
    client = asking.connect()
    assert client.names() == ["connection.start"]
    assert asking.answer() == 2
    assert client.names() == ["connection.start", "connection.tune", "connection.open-ok"]
    client.take("channel.open-ok", 1)
    assert service.asked == [
        ("/user", {"username": "bob", "password": "guest"}),
        ("/vhost", {"username": "bob", "vhost": "/", "ip": "127.0.0.1", "tags": ""}),
    ]


@pytest.mark.parametrize("answer", ["deny", "DENY\n", "", "perhaps", "allowed"])
def test_a_client_that_is_not_allowed_is_refused(asking: Asking, service: Service, answer: str) -> None:
    service.decide = lambda path, fields: answer
    client = asking.connect()
    asking.answer()
    assert client.connection.stage is ConnectionStage.REFUSED


def test_a_vhost_that_is_not_allowed_is_refused(asking: Asking, service: Service) -> None:
    service.decide = lambda path, fields: "deny" if path == "/vhost" else "Allow"
    client = asking.connect()
    asking.answer()
    assert error_of(client) == (530, "NOT_ALLOWED - access to vhost '/' refused for user 'bob'")


def test_methods_wait_for_the_answer_in_order(asking: Asking, service: Service) -> None:
    client = asking.opened()
    client.send("queue.declare", 1, queue="q")
    client.send("basic.qos", 1, prefetch_count=7)
    asking.node.settle()
    assert client.names(1) == []
    assert asking.answer() == 1
    assert client.names(1) == ["queue.declare-ok", "basic.qos-ok"]
    wanted = {"username": "bob", "vhost": "/", "resource": "queue", "name": "q", "permission": "configure", "tags": ""}
    assert service.asked == [("/resource", wanted)]


def test_publishes_wait_for_the_answer_and_lose_nothing(asking: Asking, service: Service) -> None:
    client = asking.opened()
    asking.call(client, "queue.declare", queue="q")
    asking.call(client, "confirm.select")
    other = asking.opened("carol")
    for number in range(3):
        client.publish(1, b"%d" % number, "", "q")
        asking.node.settle()
    assert "basic.ack" not in client.names(1) and asking.work
    asking.call(other, "queue.declare", queue="other")
    assert [event.arguments["delivery_tag"] for event in client.events[1] if event.name == "basic.ack"]
    assert ("/resource", "amq.default") in [(path, fields.get("name")) for path, fields in service.asked]
    service.asked.clear()
    asking.call(client, "basic.get", queue="q", no_ack=True)
    client.publish(1, b"3", "", "q")
    asking.node.settle()
    assert service.paths() == ["/resource"] and not asking.work


def test_a_publish_that_is_refused_closes_its_channel(asking: Asking, service: Service) -> None:
    service.decide = lambda path, fields: "deny" if fields.get("permission") == "write" else "allow"
    client = asking.opened()
    client.publish(1, b"x", "amq.topic", "key")
    asking.node.settle()
    asking.answer()
    assert error_of(client, 1)[0] == 403


def test_routing_keys_of_topic_exchanges_are_asked_about(asking: Asking, service: Service) -> None:
    service.decide = lambda path, fields: "deny" if fields.get("routing_key") == "us.ny" else "allow"
    client = asking.opened()
    client.publish(1, b"x", "amq.topic", "eu.fr")
    client.publish(1, b"x", "amq.topic", "us.ny")
    asking.node.settle()
    asking.answer()
    assert "topic 'us.ny'" in error_of(client, 1)[1]
    asked = [fields for path, fields in service.asked if path == "/topic"]
    assert asked[0] == {
        "username": "bob", "vhost": "/", "resource": "topic", "name": "amq.topic", "permission": "write",
        "routing_key": "eu.fr", "tags": "",
    }  # fmt: skip


@pytest.mark.parametrize("headers", [{"CC": ["q"]}, {}])
def test_examined_publishes_wait_too(asking: Asking, service: Service, headers: dict[str, Any]) -> None:
    client = asking.opened()
    asking.call(client, "queue.declare", queue="q")
    client.publish(1, b"x", "", "q", properties={"headers": headers, "user_id": "bob"})
    asking.node.settle()
    asking.answer()
    asking.call(client, "basic.get", queue="q", no_ack=True)
    client.take("basic.get-ok", 1)


def test_a_transaction_waits_for_an_answer_that_expired_before_its_commit(asking: Asking, service: Service) -> None:
    client = asking.opened()
    asking.call(client, "queue.declare", queue="q")
    asking.call(client, "tx.select")
    client.publish(1, b"x", "", "q")
    asking.node.settle()
    asking.answer()
    asking.waits(60)
    client.send("tx.commit", 1)
    asking.node.settle()
    assert "tx.commit-ok" not in client.names(1) and asking.work
    asking.answer()
    client.take("tx.commit-ok", 1)
    asking.call(client, "queue.declare", queue="q")
    assert client.events[1][-1].arguments["messages"] == 1


def test_answers_count_for_a_while(asking: Asking, service: Service) -> None:
    client = asking.opened()
    for _ in range(2):
        asking.call(client, "queue.declare", queue="q")
        client.publish(1, b"x", "", "q")
        asking.node.settle()
        asking.answer()
    assert len(service.paths()) == 2
    service.decide = lambda path, fields: "deny"
    asking.waits(14)
    asking.call(client, "queue.declare", queue="q")
    assert service.paths() == []
    asking.waits(2)
    client.publish(1, b"x", "", "q")
    asking.node.settle()
    asking.answer()
    assert error_of(client, 1)[0] == 403


def test_a_service_out_of_order_refuses_for_a_moment(asking: Asking, service: Service) -> None:
    client = asking.opened()
    service.status = 500
    asking.call(client, "queue.declare", queue="q")
    assert error_of(client, 1)[0] == 403
    service.status = 200
    client.send("channel.close-ok", 1)
    client.send("channel.open", 1)
    asking.waits(1.5)
    client.take("channel.open-ok", 1)
    asking.call(client, "queue.declare", queue="q")
    client.take("queue.declare-ok", 1)


def test_tags_come_with_the_user(asking: Asking, service: Service) -> None:
    service.decide = lambda path, fields: "allow administrator impersonator" if path == "/user" else "allow"
    client = asking.opened()
    assert client.connection.access.has_tag("impersonator") and not client.connection.access.has_tag("policymaker")
    asking.call(client, "queue.declare", queue="q")
    assert service.asked[0][1]["tags"] == "administrator impersonator"


def test_a_server_named_queue_and_any_right_are_decided_in_the_end(asking: Asking, service: Service) -> None:
    client = asking.opened()
    asking.call(client, "queue.declare", queue="", exclusive=True)
    name = client.take("queue.declare-ok", 1).arguments["queue"]
    service.decide = lambda path, fields: "allow" if fields["permission"] == "read" else "deny"
    asking.waits(60)
    asking.call(client, "queue.declare", queue=name, passive=True)
    client.take("queue.declare-ok", 1)


def test_wrong_passwords_are_held_back(asking: Asking, service: Service) -> None:
    service.decide = lambda path, fields: "deny"
    for _ in range(FREE + 3):
        asking.connect()
        asking.answer()
    assert len(service.asked) == FREE
    (guess,) = asking.node.core(0).authentication.passwords.report()
    assert guess["user"] == "bob" and guess["address"] == "127.0.0.1"


def test_equal_questions_are_asked_once(asking: Asking, service: Service) -> None:
    clients = [asking.opened() for _ in range(3)]
    for client in clients:
        client.send("queue.declare", 1, queue="q")
    asking.node.settle()
    assert len(asking.work) == 1
    asking.answer()
    for client in clients:
        client.take("queue.declare-ok", 1)


def test_a_client_that_leaves_while_it_waits_harms_nobody(asking: Asking, service: Service) -> None:
    client = asking.connect()
    client.lose()
    asking.node.settle()
    asking.answer()
    waiting = asking.opened()
    waiting.publish(1, b"x", "", "q")
    waiting.send("queue.declare", 1, queue="q")
    asking.node.settle()
    waiting.lose()
    asking.node.settle()
    asking.answer()
    assert not asking.node.core(0).gates.undecided.waiting
    asking.call(asking.opened(), "queue.declare", queue="q")


def test_a_binding_of_such_a_user_lets_its_queue_hold_publishes_where_it_could_publish(
    asking: Asking, service: Service
) -> None:
    def decide(path: str, fields: Fields) -> str:
        return "deny" if fields.get("name") == "amq.direct" and fields["permission"] == "write" else "allow"

    service.decide = decide
    client = asking.opened()
    asking.call(client, "queue.declare", queue="q")
    for exchange in ("amq.fanout", "amq.direct"):
        asking.call(client, "queue.bind", queue="q", exchange=exchange, routing_key="k")
    topology = asking.node.core(0).topology
    makers = {each.source: each.maker for each in topology.bindings_to("/", "queue", "q") if each.source}
    assert makers == {"amq.fanout": None, "amq.direct": "bob"}


def test_calls_may_be_posts(service: Service) -> None:
    with Node(**service.settings(http_method="post")) as node:
        asking = Asking(node, service)
        asking.connect("bob & co")
        asking.answer()
    assert service.asked[0] == ("/user", {"username": "bob & co", "password": "guest"})


def bodies(asking: Asking, client: Client, queue: str) -> list[bytes]:
    """Get all messages of a queue."""
    found = []
    while True:
        asking.call(client, "basic.get", queue=queue, no_ack=True)
        if client.events[1][-1].name == "basic.get-empty":
            return found
        found.append(client.events[1][-1].body)


@pytest.mark.parametrize("properties", [{}, {OVERTAKING: BY_DESTINATION}])
def test_a_held_producer_keeps_its_order_while_rights_are_asked_anew(
    asking: Asking, service: Service, properties: dict[str, Any]
) -> None:
    consumer = asking.opened("carol")
    limits = {"x-max-length": 4, "x-overflow": "flow"}
    asking.call(consumer, "queue.declare", queue="full", arguments=limits)
    asking.call(consumer, "queue.declare", queue="other")
    producer = asking.opened("bob", properties)
    for number in range(40):
        producer.publish(1, b"%d" % number, "", "full")
        asking.node.settle()
        asking.answer()
    channel = producer.connection.channels[1]
    assert channel.hold is not None and channel.inbox
    for _ in range(3):
        asking.waits(20)
        producer.publish(1, b"x", "", "other")
        producer.publish(1, b"more", "", "full")
        asking.node.settle()
        asking.answer()
    assert channel.hold is not None
    asking.waits(20)
    found = bodies(asking, consumer, "full")
    assert found == [*(b"%d" % number for number in range(40)), *[b"more"] * 3]
    assert bodies(asking, consumer, "other") == [b"x"] * 3
    assert channel.hold is None and not channel.inbox and not asking.node.core(0).gates.undecided.waiting
