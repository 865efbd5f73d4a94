"""The handshake from start-ok to open with a deferred login, and the effect of a snapshot on logged-in clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from acceptor.amqp.handshake import REFUSAL_SECONDS
from acceptor.clients.clock_origin import ClockOrigin
from acceptor.clients.connection_stage import ConnectionStage
from penstock.control import passwords
from tests.acceptor.amqp.test_connection import START_OK, UNREADABLE
from tests.frames import PROTOCOL_HEADER
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


class Later:
    """Verifications that wait until the test decides them."""

    def __init__(self) -> None:
        self.undecided: list[Callable[[bool], None]] = []

    def __call__(self, work: Callable[[], bool], done: Callable[[bool], None]) -> None:
        self.undecided.append(done)


@pytest.fixture
def node() -> Iterator[Node]:
    """Yield a node at which the password of guest takes time to verify."""
    with Node() as node:
        node.router.command("user_set", name="guest", password_hash=passwords.hashed("guest"), tags=None)
        node.publish_changes()
        node.settle()
        yield node


@pytest.fixture
def later(node: Node) -> Later:
    later = Later()
    node.core(0).authentication.passwords.background = later
    return later


@pytest.fixture
def client(node: Node, later: Later) -> Client:
    """Return a client that has sent everything up to channel.open at once; its login is undecided."""
    client = node.visit(0)
    client.log_in()
    client.send("channel.open", 1)
    node.settle()
    assert len(later.undecided) == 1
    return client


def test_what_was_sent_ahead_waits(node: Node, later: Later, client: Client) -> None:
    assert client.names() == ["connection.start"]
    assert not client.socket.reads
    later.undecided[0](True)
    node.settle()
    assert client.names() == ["connection.start", "connection.tune", "connection.open-ok"]
    client.take("channel.open-ok", 1)
    assert client.socket.reads


def test_a_refusal_takes_its_time(node: Node, later: Later, client: Client) -> None:
    node.now += REFUSAL_SECONDS / 2
    node.core(0).state.now = node.now
    later.undecided[0](False)
    node.settle(1)
    assert client.names() == ["connection.start"]
    node.now += REFUSAL_SECONDS / 2
    node.settle(1)
    assert client.take("connection.close").code == 403
    assert client.names(1) == []


def test_a_client_that_gave_up_is_not_answered(node: Node, later: Later, client: Client) -> None:
    client.connection.lost()
    later.undecided[0](True)
    node.settle()
    assert client.names() == ["connection.start"]
    assert not node.core(0).state.connections


def test_what_follows_a_refused_login_is_ignored(node: Node) -> None:
    client = node.visit()
    client.write(PROTOCOL_HEADER)
    client.send(
        "connection.start-ok", client_properties=client.properties, mechanism="PLAIN", response=b"\0guest\0wrong",
        locale="en_US",
    )  # fmt: skip
    client.send("connection.tune-ok", channel_max=2047, frame_max=131072)
    client.send("connection.open", vhost="/")
    client.publish(1, b"early", routing_key="q")
    node.settle()
    assert client.names() == ["connection.start"]
    node.now += REFUSAL_SECONDS
    node.settle(1)
    assert client.take("connection.close").code == 403


def test_a_login_that_is_never_decided_times_out(node: Node, later: Later, client: Client) -> None:
    node.core(0).state.now = node.now + node.settings.amqp.handshake_timeout
    node.core(0).tick()
    assert client.socket.closed


def test_a_storm_is_let_in_together(node: Node, later: Later, client: Client) -> None:
    others = [node.visit(0) for _ in range(20)]
    for other in others:
        other.log_in()
    node.settle()
    assert len(later.undecided) == 1
    later.undecided[0](True)
    node.settle()
    for each in (client, *others):
        each.take("connection.open-ok")


@pytest.mark.parametrize(
    ("command", "text"),
    [("user_delete", "user 'guest' is deleted"), ("vhost_delete", "vhost '/' is deleted")],
)
@pytest.mark.parametrize("unseen", [False, True])
def test_who_has_lost_user_or_vhost_is_sent_away(node: Node, command: str, text: str, unseen: bool) -> None:
    """A client whose user or vhost is deleted is closed, even if the change came with a snapshot."""
    client = node.connect(0)
    node.router.command(command, name="guest" if command == "user_delete" else "/")
    if unseen:
        node.router.authority.ledger.take_steps()
        node.core(0).load(node.version, node.snapshot())
    else:
        node.publish_changes()
    node.settle()
    closed = client.take("connection.close")
    assert (closed.code, closed.text) == (320, f"CONNECTION_FORCED - {text}")


def test_a_hold_off_lasts_by_the_nodes_clock(node: Node) -> None:
    core, client = node.core(0), node.visit(0)
    until = core.state.now + core.state.origin.node + 10
    host = client.connection.client.host
    core.topology.apply(["hold_off", "guest", host, 1, until - 20, until, until + 60, "it held on too long"])
    core.state.origin = ClockOrigin(wall=3600.0)
    client.log_in()
    node.settle()
    assert "held off for another 10 s, it held on too long" in client.take("connection.close").text
    core.state.origin = ClockOrigin(wall=3600.0, node=11.0)
    node.connect(0)


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("accepted", [False, True])
def test_an_error_sent_ahead_of_the_decision_ends_in_silence(
    node: Node, later: Later, accepted: bool, data: bytes
) -> None:
    client = node.visit(0)
    client.write(PROTOCOL_HEADER + START_OK + data + data)
    node.settle()
    assert len(later.undecided) == 1
    later.undecided[0](accepted)
    node.settle()
    assert client.names()[1:] in ([], ["connection.tune"]) and not client.data
    refused = client.connection.stage is ConnectionStage.REFUSED
    assert refused or (client.socket.closed and client.connection.stage is ConnectionStage.CLOSED)
    assert not refused or not accepted
    assert not [line for line in node.logs if line["log_level"] == "error"]
