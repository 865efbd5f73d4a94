"""Class queue: the queue that a method refers to, exclusive queues, rights, and the counts in answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mine' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the original declaration."
)
NO_QUEUE = "NOT_FOUND - no queue 'q' in vhost '/'"


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.bind("x", type="direct")
        node.bind("t", type="topic")
        yield node


def publish(client: Client, count: int, queue: str) -> None:
    for _ in range(count):
        client.publish(1, b"m", routing_key=queue)
    client.node.settle()


def refusal(client: Client, method: str, **arguments: Any) -> tuple[int, str]:
    """Return the code and text of the error with which a method closes its channel."""
    client.send(method, 1, **arguments)
    client.node.settle()
    closed = client.take("channel.close", 1)
    return closed.code, closed.text


def permit(node: Node, configure: str = "", write: str = "", read: str = "") -> Client:
    """Return a client of a user who has only these rights."""
    node.add_user("bob")
    node.router.command("permission_set", user="bob", vhost="/", configure=configure, write=write, read=read)
    node.publish_changes()
    node.settle()
    return open_channel(node, user="bob")


def refused(right: str, kind: str, name: str) -> tuple[int, str]:
    return 403, f"ACCESS_REFUSED - {right} access to {kind} '{name}' in vhost '/' refused for user 'bob'"


# The queue that a method refers to


def test_an_empty_name_means_the_queue_declared_last_on_the_channel(node: Node, client: Client) -> None:
    client.call("queue.declare", 1, queue="first")
    made_up = client.call("queue.declare", 1, queue="").queue
    assert made_up.startswith("amq.gen-")
    publish(client, 2, made_up)
    assert client.call("queue.purge", 1).messages == 2
    client.call("queue.declare", 1, queue="first", passive=True)
    publish(client, 1, "first")
    assert client.call("queue.delete", 1).messages == 1
    assert [queue.name for queue in node.router.topology.queues()] == [made_up]


def test_without_a_declared_queue_an_empty_name_means_none(client: Client) -> None:
    other = open_channel(client.node)
    other.call("queue.declare", 1, queue="q")
    assert refusal(client, "queue.purge") == (404, "NOT_FOUND - no previously declared queue")


@pytest.mark.parametrize(("asked", "key"), [("", "q"), ("q", "")])
def test_only_an_empty_queue_gives_its_name_to_an_empty_routing_key(
    node: Node, client: Client, asked: str, key: str
) -> None:
    client.call("queue.declare", 1, queue="q")
    client.call("queue.bind", 1, queue=asked, exchange="x", routing_key="")
    client.publish(1, b"m", exchange="x", routing_key=key)
    node.settle()
    assert node.state("q").depth == 1


def test_line_ends_in_a_name_are_dropped(node: Node, client: Client) -> None:
    assert client.call("queue.declare", 1, queue="\rq\n").queue == "q"
    client.call("queue.purge", 1, queue="q\r\n")
    client.call("queue.declare", 1, queue="q\n", passive=True)


def test_an_exclusive_queue_is_locked_for_other_connections(node: Node, client: Client) -> None:
    client.call("queue.declare", 1, queue="mine", exclusive=True)
    client.call("queue.declare", 1, queue="mine", passive=True)
    for method, arguments in (("queue.declare", {"passive": True}), ("queue.purge", {}), ("queue.delete", {})):
        assert refusal(open_channel(node), method, queue="mine", **arguments) == (405, LOCKED)


# Answers


def test_declare_ok_counts_ready_messages_and_consumers(node: Node, client: Client) -> None:
    client.call("queue.declare", 1, queue="q")
    publish(client, 3, "q")
    client.send("basic.get", 1, queue="q")
    client.call("basic.qos", 1, prefetch_count=1)
    client.call("basic.consume", 1, queue="q")
    for passive in (False, True):
        declared = client.call("queue.declare", 1, queue="q", passive=passive)
        assert (declared.queue, declared.messages, declared.consumers) == ("q", 1, 1)


@pytest.mark.parametrize("passive", [False, True])
def test_a_queue_deleted_before_it_is_counted_was_declared_all_the_same(
    node: Node, client: Client, passive: bool
) -> None:
    """Only a passive declare, which asks for the queue as it is, reports the queue as missing."""
    record = node.declare("q")
    node.settle()
    client.publish(1, b"under way: the shard has to be asked", routing_key="q")
    client.send("queue.declare", 1, queue="q", passive=passive)
    client.read()
    node.finish(0)
    acceptor = node.acceptors[0]
    assert acceptor is not None
    node.reply(acceptor)
    node.ask("queue_delete", queue_id=record.queue_id)
    node.settle()
    if passive:
        closed = client.take("channel.close", 1)
        assert (closed.code, closed.text) == (404, NO_QUEUE)
    else:
        declared = client.take("queue.declare-ok", 1)
        assert (declared.messages, declared.consumers) == (0, 0)


def test_deleting_a_queue_that_does_not_exist_succeeds_and_purging_it_fails(client: Client) -> None:
    assert client.call("queue.delete", 1, queue="q").messages == 0
    assert refusal(client, "queue.purge", queue="q") == (404, NO_QUEUE)


def test_without_an_answer_wanted_there_is_none(node: Node, client: Client) -> None:
    client.send("queue.declare", 1, queue="q", nowait=True)
    client.send("queue.bind", 1, queue="q", exchange="x", routing_key="k", nowait=True)
    client.publish(1, b"m", exchange="x", routing_key="k")
    node.settle()
    assert node.state("q").depth == 1
    client.send("queue.purge", 1, queue="q", nowait=True)
    node.settle()
    assert node.state("q").depth == 0
    client.send("queue.delete", 1, queue="q", nowait=True)
    node.settle()
    assert not node.router.topology.queues() and not client.names(1)


# Rights


@pytest.mark.parametrize(
    ("method", "arguments", "right"),
    [
        ("queue.declare", {}, "configure"),
        ("queue.delete", {}, "configure"),
        ("queue.purge", {}, "read"),
        ("queue.bind", {"exchange": "x"}, "write"),
        ("queue.unbind", {"exchange": "x"}, "write"),
    ],
)
def test_each_method_needs_one_right_to_its_queue(
    node: Node, method: str, arguments: dict[str, str], right: str
) -> None:
    node.declare("q")
    rights = dict.fromkeys(("configure", "write", "read"), ".*")
    client = permit(node, **{**rights, right: "^x$"})
    assert refusal(client, method, queue="q", **arguments) == refused(right, "queue", "q")


def test_a_passive_declare_needs_any_right(node: Node) -> None:
    for name in ("q", "other"):
        node.declare(name)
    client = permit(node, read="^q$")
    client.call("queue.declare", 1, queue="q", passive=True)
    assert refusal(client, "queue.declare", queue="other", passive=True) == (
        403,
        "ACCESS_REFUSED - access to queue 'other' in vhost '/' refused for user 'bob'",
    )


def test_a_made_up_name_is_one_of_amq_gen(node: Node) -> None:
    client = permit(node, configure="^amq\\.gen-")
    client.call("queue.declare", 1, queue="")
    assert refusal(client, "queue.declare", queue="q") == refused("configure", "queue", "q")


@pytest.mark.parametrize(
    ("read", "write", "right", "kind", "name"),
    [("", ".*", "read", "queue", "q"), ("q", "", "write", "exchange", "t"), ("q", "t", "", "", "")],
)
def test_a_new_queue_that_dead_letters_needs_the_rights_to_read_it_and_to_write_there(
    node: Node, read: str, write: str, right: str, kind: str, name: str
) -> None:
    client = permit(node, configure=".*", write=write, read=read)
    arguments = {"x-dead-letter-exchange": "t"}
    if right:
        assert refusal(client, "queue.declare", queue="q", arguments=arguments) == refused(right, kind, name)
    else:
        client.call("queue.declare", 1, queue="q", arguments=arguments)


def test_a_queue_that_exists_is_declared_without_the_rights_of_a_new_one(node: Node) -> None:
    node.declare("q", **{"x-dead-letter-exchange": "t"})
    client = permit(node, configure=".*")
    client.call("queue.declare", 1, queue="q", arguments={"x-dead-letter-exchange": "t"})


def test_topic_permissions_cover_keys_of_bindings_and_of_dead_letters(node: Node) -> None:
    node.declare("q")
    client = permit(node, ".*", ".*", ".*")
    node.router.command("topic_permission_set", user="bob", vhost="/", exchange="t", write="^w", read="^r")
    node.publish_changes()
    client.call("queue.bind", 1, queue="q", exchange="t", routing_key="r")
    client.call("queue.declare", 1, queue="d", arguments=dead_letters("w"))
    texts = [
        refusal(client, "queue.bind", queue="q", exchange="t", routing_key="w")[1],
        refusal(open_channel(node, user="bob"), "queue.declare", queue="e", arguments=dead_letters("r"))[1],
    ]
    where = "in exchange 't' in vhost '/' refused for user 'bob'"
    assert texts == [
        f"ACCESS_REFUSED - read access to topic 'w' {where}",
        f"ACCESS_REFUSED - write access to topic 'r' {where}",
    ]


def dead_letters(key: str) -> dict[str, str]:
    return {"x-dead-letter-exchange": "t", "x-dead-letter-routing-key": key}
