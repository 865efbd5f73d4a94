"""Deaths of a shard with a store: no acked message comes back, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shard.queue.deletion import Stage
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(2, 2, stores=True) as node:
        yield node


def publish(client: Client, *bodies: bytes, queue: str = "q", channel: int = 1, **properties: Any) -> None:
    for body in bodies:
        client.publish(channel, body, routing_key=queue, delivery_mode=2, **properties)


def delivered(client: Client, channel: int = 1) -> list[tuple[bytes, bool]]:
    """Return the bodies delivered since the last call, and whether they are redelivered."""
    found = []
    while "basic.deliver" in client.names(channel):
        event = client.take("basic.deliver", channel)
        found.append((event.body, event.redelivered))
    return found


def die(node: Node, shard: int = 0) -> None:
    """Kill a shard, start it again, and let the node settle."""
    node.kill_shard(shard)
    node.start_shard(shard)
    node.settle()


def ready(node: Node, queue: str = "q") -> tuple[int, int]:
    """Return the numbers of ready and unacked messages."""
    contents = node.state(queue).contents
    return contents.ready, contents.unacked


def numbered(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def test_deliveries_in_hand_are_acked_after_the_death(node: Node) -> None:
    node.declare("q", durable=True)
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    publish(client, *numbered(*range(5)))
    node.settle()
    assert len(delivered(client)) == 5
    die(node)
    assert (delivered(client), ready(node)) == ([], (0, 5))
    client.send("basic.ack", 1, delivery_tag=3, multiple=True)
    client.send("basic.nack", 1, delivery_tag=5, requeue=True)
    node.settle()
    assert (delivered(client), ready(node)) == ([(b"4", True)], (0, 2))
    die(node)
    client.send("basic.ack", 1, delivery_tag=0, multiple=True)
    node.settle()
    assert ready(node) == (0, 0)
    die(node)
    assert (delivered(client), ready(node)) == ([], (0, 0))


def test_an_ack_that_was_not_written_is_sent_again(node: Node) -> None:
    node.declare("q", durable=True)
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q")
    publish(client, *numbered(*range(3)))
    node.settle()
    node.commits = False
    client.send("basic.ack", 1, delivery_tag=2, multiple=True)
    node.settle()
    assert ready(node) == (0, 1)
    node.commits = True
    assert len(delivered(client)) == 3
    die(node)
    assert (delivered(client), ready(node)) == ([], (0, 1))


def test_what_was_delivered_and_not_written_comes_as_redelivered(node: Node) -> None:
    """Also when another incarnation has the message in its store and has not delivered it."""
    node.declare("q", durable=True)
    client = open_channel(node)
    client.call("confirm.select", 1)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    node.commits = False
    publish(client, b"delivered", b"too")
    client.publish(1, b"transient", routing_key="q")
    node.settle()
    assert delivered(client) == [(b"delivered", False), (b"too", False), (b"transient", False)]
    client.send("basic.cancel", 1, consumer_tag="c")
    client.send("basic.ack", 1, delivery_tag=0, multiple=True)
    die(node)
    node.commits = True
    node.settle()
    publish(client, b"new")
    die(node)
    client.call("basic.consume", 1, queue="q")
    assert delivered(client) == [(b"delivered", True), (b"too", True), (b"transient", True), (b"new", False)]


def test_what_was_in_hand_when_its_delivery_was_not_written_comes_as_redelivered(node: Node) -> None:
    """The next incarnation learns of the delivery, and the one after it still knows, though nobody has it unacked."""
    node.declare("q", durable=True)
    client, other = open_channel(node), open_channel(node, acceptor=1)
    publish(client, b"a")
    node.settle()
    node.commits = False
    client.send("basic.consume", 1, queue="q", consumer_tag="c")
    node.settle()
    assert delivered(client) == [(b"a", False)]
    node.commits = True
    node.kill_shard(0, written=False)
    node.start_shard(0)
    node.settle()
    assert ready(node) == (0, 1)
    client.call("basic.cancel", 1, consumer_tag="c")
    client.call("basic.recover", 1, requeue=True)
    assert ready(node) == (1, 0)
    die(node)
    other.call("basic.consume", 1, queue="q")
    assert delivered(other) == [(b"a", True)]


def lose_delivery(node: Node, client: Client) -> None:
    """Kill the shard before it has written that a message was delivered."""
    node.declare("q", durable=True)
    publish(open_channel(node), b"a")
    node.settle()
    node.commits = False
    client.send("basic.consume", 1, queue="q", consumer_tag="c")
    node.settle()
    assert delivered(client) == [(b"a", False)]
    client.send("basic.cancel", 1, consumer_tag="c")
    node.settle()
    node.kill_shard(0, written=False)


@pytest.mark.parametrize("deaths", [1, 2, 3])
@pytest.mark.parametrize("end", ["nack", "close", "lose", "commit"])
def test_what_was_given_back_between_deaths_comes_as_redelivered(node: Node, end: str, deaths: int) -> None:
    """The incarnations that learn of the return die before they have written it, too."""
    client, other = open_channel(node), open_channel(node, acceptor=1)
    if end == "commit":
        client.call("tx.select", 1)
    lose_delivery(node, client)
    match end:
        case "nack" | "commit":
            client.send("basic.nack", 1, delivery_tag=1, requeue=True)
        case "close":
            client.send("channel.close", 1)
        case "lose":
            client.lose()
    if end == "commit":
        client.send("tx.commit", 1)
    node.settle()
    for _ in range(deaths - 1):
        node.start_shard(0)
        node.settle()
        assert ready(node) == (1, 0)
        node.kill_shard(0, written=False)
    node.commits = True
    node.start_shard(0)
    node.settle()
    other.call("basic.consume", 1, queue="q")
    assert delivered(other) == [(b"a", True)]


def test_a_transaction_that_was_delivered_and_not_written_comes_as_redelivered(node: Node) -> None:
    node.declare("q", durable=True)
    client, consumer = open_channel(node), open_channel(node, 1)
    consumer.call("basic.consume", 1, queue="q")
    client.call("tx.select", 1)
    node.commits = False
    publish(client, b"m")
    client.send("tx.commit", 1)
    node.settle()
    assert delivered(consumer) == [(b"m", False)]
    die(node)
    node.commits = True
    node.settle()
    client.take("tx.commit-ok", 1)
    assert delivered(consumer) == [(b"m", True)]


@pytest.mark.parametrize("end", ["cancel", "close", "acceptor"])
def test_an_auto_delete_queue_goes_though_its_shard_was_down_when_its_last_consumer_went(node: Node, end: str) -> None:
    node.ask("queue_declare", name="q", durable=True, auto_delete=True)
    node.ask("queue_declare", name="unused", durable=True, auto_delete=True)
    client, other = open_channel(node), open_channel(node, 1)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    other.call("basic.consume", 1, queue="q", consumer_tag="c")
    for shard in 0, 1:
        die(node, shard)
    other.call("basic.cancel", 1, consumer_tag="c")
    assert node.router.topology.queue("/", "q")
    for shard in 0, 1:
        node.kill_shard(shard)
    match end:
        case "cancel":
            client.send("basic.cancel", 1, consumer_tag="c")
        case "close":
            client.lose()
        case "acceptor":
            node.kill_acceptor(0)
    node.settle()
    for shard in 0, 1:
        node.start_shard(shard)
    node.settle()
    assert node.router.topology.queue("/", "q") is None
    assert node.router.topology.queue("/", "unused")


def test_a_queue_whose_end_the_router_was_not_told_of_goes_in_the_next_incarnation(node: Node) -> None:
    node.ask("queue_declare", name="q", auto_delete=True)
    shard = node.queue("q").shard
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    client.lose()
    while node.state("q").deletion.stage is Stage.KEPT:
        assert node.finish(0) | node.send_up(0, shard)
    node.shard(shard).finish_turn(node.microseconds())
    assert node.shard(shard).state.router_requests
    die(node, shard)
    assert node.router.topology.queue("/", "q") is None


def test_what_was_requeued_and_came_again_is_in_one_hand_only(node: Node) -> None:
    """The death undoes the requeue, not the delivery to another consumer."""
    node.declare("q", durable=True)
    first, second = open_channel(node, 0), open_channel(node, 1)
    first.call("basic.consume", 1, queue="q", consumer_tag="c")
    publish(first, b"m")
    node.settle()
    assert delivered(first) == [(b"m", False)]
    node.commits = False
    first.send("basic.cancel", 1, consumer_tag="c")
    second.send("basic.consume", 1, queue="q")
    node.settle()
    first.send("basic.nack", 1, delivery_tag=1, requeue=True)
    node.settle()
    assert delivered(second) == [(b"m", True)]
    node.commits = True
    die(node)
    second.send("basic.ack", 1, delivery_tag=1)
    node.settle()
    assert (delivered(first), delivered(second), ready(node)) == ([], [], (0, 0))


def test_gets_and_cancelled_consumers_keep_what_they_have_in_hand(node: Node) -> None:
    node.declare("q", durable=True)
    client = open_channel(node)
    publish(client, *numbered(*range(4)))
    node.settle()
    client.send("basic.get", 1, queue="q")
    node.settle()
    assert client.take("basic.get-ok", 1).body == b"0"
    client.call("basic.qos", 1, prefetch_count=2)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    client.call("basic.cancel", 1, consumer_tag="c")
    assert delivered(client) == [(b"1", False), (b"2", False)]
    die(node)
    assert ready(node) == (1, 3)
    client.send("basic.ack", 1, delivery_tag=2, multiple=True)
    node.settle()
    assert ready(node) == (1, 1)
    client.call("channel.close", 1)
    assert ready(node) == (2, 0)
    assert not node.shard(0).state.links[b"acceptor.0.1"].consumers


def test_acks_of_a_channel_that_closed_meanwhile_hold(node: Node) -> None:
    node.declare("q", durable=True)
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q")
    publish(client, *numbered(*range(3)))
    node.settle()
    node.kill_shard(0)
    client.send("basic.ack", 1, delivery_tag=1)
    client.send("channel.close", 1)
    node.settle()
    node.start_shard(0)
    node.settle()
    assert ready(node) == (2, 0)
    link = node.shard(0).state.links[b"acceptor.0.1"]
    assert (link.consumers, link.groups) == ({}, {})


def test_a_shared_limit_counts_what_is_in_hand(node: Node) -> None:
    node.declare("q", durable=True)
    client = open_channel(node)
    client.call("basic.qos", 1, prefetch_count=2, global_=True)
    client.call("basic.consume", 1, queue="q")
    publish(client, *numbered(*range(5)))
    node.settle()
    assert len(delivered(client)) == 2
    die(node)
    assert delivered(client) == []
    client.send("basic.ack", 1, delivery_tag=1)
    node.settle()
    assert [body for body, _ in delivered(client)] == [b"2"]


def test_an_open_transaction_outlives_the_shard(node: Node) -> None:
    """Messages that it settled stay unacked until the commit; a rollback returns them to the channel."""
    node.declare("q", durable=True)
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q")
    publish(client, *numbered(*range(3)))
    node.settle()
    assert len(delivered(client)) == 3
    client.call("tx.select", 1)
    client.send("basic.ack", 1, delivery_tag=1)
    client.send("basic.nack", 1, delivery_tag=2, requeue=True)
    die(node)
    assert (delivered(client), ready(node)) == ([], (0, 3))
    client.call("tx.rollback", 1)
    client.send("basic.ack", 1, delivery_tag=2, multiple=True)
    publish(client, b"in it")
    die(node)
    client.call("tx.commit", 1)
    assert (delivered(client), ready(node)) == ([(b"in it", False)], (0, 2))


@pytest.mark.parametrize("arriving", [0, 9])
@pytest.mark.parametrize("written", [False, True])
def test_a_commit_is_done_once(node: Node, arriving: int, written: bool) -> None:
    """The shard dies before it has written the commit, or before its acceptor has received the answer."""
    node.declare("q", durable=True)
    node.declare("other", durable=True)
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q")
    publish(client, *numbered(*range(3)))
    node.settle()
    assert len(delivered(client)) == 3
    client.call("tx.select", 1)
    client.send("basic.ack", 1, delivery_tag=2, multiple=True)
    publish(client, b"a", b"b", queue="other")
    client.send("tx.commit", 1)
    client.read()
    node.finish(0)
    while node.send_up(0, 0):
        pass
    node.finish_shard(0)
    if written:
        node.commit_shard(0)
        node.finish_shard(0)
    node.kill_shard(0, arriving)
    node.start_shard(0)
    node.settle()
    client.take("tx.commit-ok", 1)
    assert (delivered(client), ready(node), ready(node, "other")) == ([], (0, 1), (2, 0))


def test_confirmed_messages_come_once(node: Node) -> None:
    node.declare("q", durable=True)
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, b"confirmed")
    node.settle()
    assert client.take("basic.ack", 1)
    node.commits = False
    publish(client, b"not yet")
    node.settle()
    assert "basic.ack" not in client.names(1)
    node.commits = True
    die(node)
    assert client.take("basic.ack", 1).delivery_tag == 2
    die(node)
    assert ready(node) == (2, 0)
    client.call("basic.consume", 1, queue="q")
    assert [body for body, _ in delivered(client)] == [b"confirmed", b"not yet"]


def test_withheld_confirms_stay_so_for_what_is_still_there(node: Node) -> None:
    """Confirms of a queue that is not durable become nacks, since its messages are gone."""
    marks = {"qpid.flow_stop_count": 1, "qpid.flow_resume_count": 0}
    client = open_channel(node)
    client.call("channel.open", 2)
    for channel, (queue, durable) in enumerate((("kept", True), ("gone", False)), 1):
        node.declare(queue, durable=durable, **marks)
        client.call("confirm.select", channel)
        for _ in range(2):
            publish(client, b"m", queue=queue, channel=channel)
            node.settle()
            assert client.names(channel) == ["basic.ack"]
    die(node)
    assert (client.names(1), client.names(2)) == (["basic.ack"], ["basic.ack", "basic.nack"])
    client.call("queue.purge", 2, queue="kept")
    node.settle(2)
    assert [event.delivery_tag for event in client.events[1]] == [1, 2]


def test_what_an_acceptor_had_in_hand_is_ready_when_both_die(node: Node) -> None:
    node.declare("q", durable=True)
    lost, client = open_channel(node, 0), open_channel(node, 1)
    lost.call("basic.consume", 1, queue="q")
    publish(client, *numbered(*range(3)))
    node.settle()
    node.kill_shard(0)
    node.kill_acceptor(0)
    node.start_shard(0)
    client.call("basic.consume", 1, queue="q")
    assert delivered(client) == [(b"0", True), (b"1", True), (b"2", True)]


def test_a_dead_letter_is_kept_until_it_is_safe_with_the_other_shard(node: Node) -> None:
    """The other shard is down, then the sender dies too; the rejecting consumer does not see the message again."""
    node.declare("q", durable=True, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    node.declare("dead", shard=1, durable=True)
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q")
    publish(client, *numbered(1, 2, 3))
    node.settle()
    assert delivered(client) == [(b"1", False), (b"2", False), (b"3", False)]
    node.kill_shard(1)
    client.send("basic.reject", 1, delivery_tag=2, requeue=False)
    client.send("basic.reject", 1, delivery_tag=1, requeue=False)
    node.settle()
    node.kill_shard(0)
    node.start_shard(0)
    node.settle()
    die(node)
    node.start_shard(1)
    node.settle()
    assert (delivered(client), ready(node), ready(node, "dead")) == ([], (0, 1), (2, 0))
    for shard in 0, 1:
        die(node, shard)
    assert (ready(node), ready(node, "dead")) == ((0, 1), (2, 0))
    client.call("basic.consume", 1, queue="dead")
    assert [body for body, _ in delivered(client)] == [b"1", b"2"]


def dying(node: Node, **arguments: Any) -> tuple[Client, Client]:
    """Declare a queue that dead-letters to another shard's; return a consuming client for each."""
    node.declare("q", durable=True, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", **arguments})
    node.declare("dead", shard=1, durable=True)
    clients = open_channel(node), open_channel(node, 1)
    for client, queue in zip(clients, ("q", "dead"), strict=True):
        client.call("basic.consume", 1, queue=queue)
    return clients


def buried(node: Node) -> tuple[Client, Client]:
    """Have a message rejected and delivered as a dead letter, and nothing of that committed; return both clients."""
    client, undertaker = dying(node)
    publish(client, b"m")
    node.settle()
    assert delivered(client) == [(b"m", False)]
    node.commits = False
    client.send("basic.reject", 1, delivery_tag=1, requeue=False)
    node.settle()
    assert delivered(undertaker) == [(b"m", False)]
    return client, undertaker


def test_a_dead_letter_that_another_incarnation_may_have_delivered_comes_as_redelivered(node: Node) -> None:
    _, undertaker = buried(node)
    die(node, 1)
    assert delivered(undertaker) == [(b"m", True)]


@pytest.mark.parametrize("noted", [False, True])
def test_a_dead_letter_that_another_incarnation_may_have_sent_comes_as_redelivered(node: Node, noted: bool) -> None:
    """The store of the queue may know of the message's death or not."""
    client, undertaker = buried(node)
    for _ in range(2 * noted):
        assert node.commit_shard(0)
    die(node)
    assert (delivered(client), delivered(undertaker)) == ([], [(b"m", True)])


def test_a_rejected_message_whose_queue_buries_no_more_is_gone(node: Node) -> None:
    node.policy("p", "q", {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"})
    node.declare("q", durable=True)
    node.declare("dead", shard=1, durable=True)
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q")
    publish(client, *numbered(1, 2))
    node.settle()
    node.kill_shard(1)
    client.send("basic.reject", 1, delivery_tag=1, requeue=False)
    node.settle()
    node.kill_shard(0)
    node.policy("p", "q", None)
    node.start_shard(0)
    node.settle()
    client.send("basic.ack", 1, delivery_tag=2)
    node.settle()
    journal = node.shard(0).state.journal
    assert journal is not None and (ready(node), journal.nbytes) == ((0, 0), 0)


def test_a_dead_letter_is_kept_until_the_other_shard_has_flushed_it(node: Node) -> None:
    """Where commits do not wait for the disk, a power cut may take what the other shard has only written."""
    node.declare("q", durable=True, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    node.declare("dead", shard=1, durable=True)
    source, target = node.shards[0], node.shards[1]
    assert source is not None and source.core.state.journal is not None and target is not None
    commits = target.core.commits
    commits.flushed_later = True
    client = open_channel(node)
    publish(client, *numbered(*range(3)))
    for number in (1, 2, 3):
        client.send("basic.get", 1, queue="q")
        node.settle()
        assert client.take("basic.get-ok", 1)
        client.send("basic.reject", 1, delivery_tag=number, requeue=False)
        node.settle()
    assert (ready(node), ready(node, "dead")) == ((0, 0), (3, 0))
    assert commits.awaited and source.core.state.journal.nbytes > 0
    commits.flush_begins()
    commits.not_flushed()
    node.settle()
    assert commits.awaited and source.core.state.journal.nbytes > 0
    commits.flush_begins()
    node.settle()
    assert not commits.awaited and source.core.state.journal.nbytes > 0
    commits.flushed()
    node.settle()
    assert source.core.state.journal.nbytes == 0


@pytest.mark.parametrize(
    ("name", "arguments", "answer", "left"),
    [
        ("basic.get", {"no_ack": True}, "basic.get-ok", 0),
        ("queue.purge", {}, "queue.purge-ok", 0),
        ("queue.delete", {"if_empty": True}, "channel.close", 1),
    ],
)
def test_what_was_asked_after_a_publish_is_so_in_the_next_incarnation_too(
    node: Node, name: str, arguments: dict[str, object], answer: str, left: int
) -> None:
    node.declare("q", durable=True)
    client = open_channel(node)
    publish(client, b"published")
    client.send(name, 1, queue="q", **arguments)
    client.read()
    node.finish(0)  # both are in flight
    die(node)
    assert client.take(answer, 1)
    assert ready(node) == (left, 0)
