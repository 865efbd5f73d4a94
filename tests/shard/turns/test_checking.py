"""Errors before a shard has changed anything: they cost the requester its connection, and nobody else anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shard.queue.consumer_cy import Consumer, Group
from shard.queue.queue_state import QueueState
from tests.shard.steps import drain, publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("good")
        node.declare("bad", **{"x-expires": 3_600_000})  # of whose use the shard must learn
        yield node


class Checks(dict[int, QueueState]):
    """The queues of a shard, one of which cannot be accessed."""

    bad = 0

    def get(self, id: int, default: Any = None) -> Any:
        if id == self.bad:
            raise LookupError("a bug")
        return super().get(id, default)

    def __contains__(self, id: object) -> bool:
        return self.get(id) is not None  # type: ignore[arg-type]


def fails_to_check(node: Node, name: str) -> Callable[[], None]:
    """Make access to the queue fail from now on; return a function that ends the failure."""
    core = node.shard(0)
    known = core.state.queues
    core.state.queues = checks = Checks(known)
    checks.bad = node.queue(name).queue_id

    def mend() -> None:
        core.state.queues = known

    return mend


REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "get": ("basic.get", {"queue": "bad"}),
    "consume": ("basic.consume", {"queue": "bad"}),
    "look": ("queue.declare", {"queue": "bad", "passive": True}),
    "purge": ("queue.purge", {"queue": "bad"}),
    "delete": ("queue.delete", {"queue": "bad"}),
}


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request(node: Node, request_: str) -> None:
    """The request ends its connection with 541; later operations of the turn, and those of others, are carried out."""
    unlucky, beside, behind = open_channel(node), open_channel(node), open_channel(node)
    publish(unlucky, "bad", b"kept")
    mend = fails_to_check(node, "bad")
    publish_in_turn(beside, b"before")
    name, arguments = REQUESTS[request_]
    unlucky.send(name, 1, **arguments)
    unlucky.read()
    behind.send("basic.get", 1, queue="good", no_ack=True)
    behind.read()
    node.settle()
    assert behind.take("basic.get-ok", 1).body == b"before"
    assert unlucky.take("connection.close").code == 541
    (line,) = (line for line in node.logs if line["event"] == "request failed before it changed anything")
    assert isinstance(line["exc_info"], LookupError)
    mend()
    unlucky.send("connection.close-ok")
    node.settle()
    assert drain(beside, "bad") == [b"kept"]


def publish_in_turn(client: Client, body: bytes) -> None:
    """Publish into the acceptor's turn, which does not leave yet."""
    client.publish(1, body, routing_key="good")
    client.read()


def test_what_is_attached_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that the next incarnation of the shard cannot make costs its own connection, and no other consumer."""
    unlucky, other = open_channel(node), open_channel(node)
    unlucky.call("basic.consume", 1, queue="bad")
    other.call("basic.consume", 1, queue="good")
    bad = node.queue("bad").queue_id

    def fails(id: int, contents: Any, *rest: Any) -> Consumer:
        if contents.owner.id == bad:
            raise OverflowError("a bug")
        return Consumer(id, contents, *rest)

    monkeypatch.setattr("shard.requests.consuming.Consumer", fails)
    node.kill_shard(0)
    node.start_shard(0)
    node.settle()
    assert unlucky.take("connection.close").code == 541
    publish(other, "good", b"x")
    assert other.take("basic.deliver", 1).body == b"x"


class Groups(dict[int, Group]):
    """The groups of a link, one of which cannot be accessed."""

    bad = 0

    def get(self, id: int, default: Any = None) -> Any:
        if id == self.bad:
            raise LookupError("a bug")
        return super().get(id, default)


def test_a_limit_that_channels_share(node: Node) -> None:
    unlucky, other = open_channel(node), open_channel(node)
    for client in (unlucky, other):
        client.call("basic.consume", 1, queue="good")
    (link,) = node.shard(0).state.links.values()
    link.groups = groups = Groups(link.groups)
    groups.bad = unlucky.connection.channels[1].group
    for client in (unlucky, other):
        client.send("basic.qos", 1, prefetch_count=3, global_=True)
        client.read()
    node.settle()
    assert other.take("basic.qos-ok", 1)
    assert unlucky.take("connection.close").code == 541


def test_in_the_middle_of_a_change_nothing_is_contained(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gets no answer: the shard ends, so that nothing of the change is seen."""
    client = open_channel(node)
    monkeypatch.setattr(node.shard(0).serving, "serve_now", lambda queue: 1 // 0)
    client.send("queue.purge", 1, queue="good")
    with pytest.raises(ZeroDivisionError):
        node.settle()
    assert not client.names(0)
