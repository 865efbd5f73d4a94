"""Moves of queues: the state that a queue takes along to another shard, and the state that it leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.moving.move_stage import MoveStage
from router.model.records import HOMING
from tests.shard.steps import drain, get, pass_ms, publish, recount
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

QUEUE = "q"


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(1, 2, stores=True) as node:
        yield node


def moved(node: Node, queue: str = QUEUE) -> dict[str, Any]:
    """Move a queue to the other shard; AssertionError unless it is moved."""
    results = node.move(queue, 1 - node.queue(queue).shard)
    node.settle()
    (result,) = results
    assert result["result"] == "moved", result
    assert not list(node.stored.glob("*/move-*"))
    return result


def opened(node: Node, shard: int = 0, **arguments: Any) -> Client:
    node.declare(QUEUE, shard=shard, durable=True, **arguments)
    return open_channel(node)


def die(node: Node, shard: int) -> None:
    node.kill_shard(shard)
    node.start_shard(shard)
    node.settle()


def test_persistent_messages_are_in_the_store_of_the_new_home_only(node: Node) -> None:
    client = opened(node)
    publish(client, QUEUE, b"1", b"2", delivery_mode=2)
    publish(client, QUEUE, b"3", delivery_mode=2)
    assert moved(node)["messages"] == 3
    die(node, 0)
    die(node, 1)
    assert drain(client, QUEUE) == [b"1", b"2", b"3"]
    for _ in range(3):
        publish(client, QUEUE, b"4", delivery_mode=2)
        moved(node)
        assert drain(client, QUEUE) == [b"4"]


def test_what_an_acceptor_had_whose_death_comes_late_moves_along() -> None:
    """The gauges say that it has died before its old home has heard of it, and put its messages back."""
    with Node(2, 2, stores=True) as node:
        client = opened(node)
        publish(client, QUEUE, b"1", b"2", delivery_mode=2)
        client.call("basic.consume", 1, queue=QUEUE)
        node.kill_acceptor(0)
        old_home = node.shards[0]
        assert old_home is not None
        late = list(old_home.events)
        old_home.events.clear()
        results = node.move(QUEUE, 1)
        node.settle()
        assert not results
        old_home.events += late
        node.settle()
        assert results[0]["result"] == "moved", results
        assert drain(open_channel(node, 1), QUEUE) == [b"1", b"2"]


def test_counters_go_on_and_say_so(node: Node) -> None:
    """`since_us` in the gauges is the same after each move; after a shard death, the counters start from zero."""
    client = opened(node)
    publish(client, QUEUE, b"1", b"2", delivery_mode=2)
    before = node.gauges.queue_read(node.queue(QUEUE).slot)
    for _ in range(2):
        pass_ms(node, 10)
        moved(node)
        gauge = node.gauges.queue_read(node.queue(QUEUE).slot)
        assert before and gauge and (gauge.since_us, gauge.counters.published) == (before.since_us, 2)
    die(node, 0)
    gauge = node.gauges.queue_read(node.queue(QUEUE).slot)
    assert before and gauge and gauge.since_us > before.since_us and gauge.counters.published == 0


def test_redelivered_is_who_was_delivered(node: Node) -> None:
    client = opened(node)
    publish(client, QUEUE, b"1", b"2", b"3", delivery_mode=2)
    first = get(client, QUEUE, no_ack=False)
    assert first and first.body == b"1"
    client.send("basic.nack", 1, delivery_tag=first.delivery_tag, requeue=True)
    node.settle()
    moved(node)
    die(node, 1)
    seen = [get(client, QUEUE) for _ in range(3)]
    assert [(event.body, event.redelivered) for event in seen if event] == [
        (b"1", True), (b"2", False), (b"3", False),
    ]  # fmt: skip


def test_expiry(node: Node) -> None:
    """The TTLs of the queue and of single messages go along, less the time that has passed."""
    client = opened(node, **{"x-message-ttl": 1000})
    publish(client, QUEUE, b"short", delivery_mode=2, expiration="300")
    publish(client, QUEUE, b"long", delivery_mode=2)
    pass_ms(node, 200)
    moved(node)
    recount(node, QUEUE)
    assert node.state(QUEUE).contents.ready == 2
    pass_ms(node, 200)
    assert node.state(QUEUE).contents.ready == 1
    moved(node)
    pass_ms(node, 700)
    assert drain(client, QUEUE) == []


def test_how_often_messages_came_back(node: Node) -> None:
    client = opened(node, **{"x-delivery-limit": 2, "x-queue-type": "quorum"})
    publish(client, QUEUE, b"1", delivery_mode=2)
    for times in range(3):
        event = get(client, QUEUE, no_ack=False)
        assert event and event.properties.get("headers", {}).get("x-delivery-count", 0) == times
        client.send("basic.nack", 1, delivery_tag=event.delivery_tag, requeue=True)
        node.settle()
        if times < 2:
            moved(node)
    assert drain(client, QUEUE) == []


def test_priorities(node: Node) -> None:
    client = opened(node, **{"x-max-priority": 3})
    for number, priority in enumerate([0, 3, 1, 3, 0, 2]):
        publish(client, QUEUE, b"%d" % number, delivery_mode=2, priority=priority)
    moved(node)
    recount(node, QUEUE)
    publish(client, QUEUE, b"6", delivery_mode=2, priority=3)
    die(node, 1)
    assert drain(client, QUEUE) == [b"1", b"3", b"6", b"5", b"2", b"0", b"4"]


def test_last_values(node: Node) -> None:
    client = opened(node, **{"x-overflow": "last-value", "x-last-value-key": "k"})
    for value, body in (("a", b"a1"), ("b", b"b1"), ("a", b"a2")):
        publish(client, QUEUE, body, delivery_mode=2, headers={"k": value})
    moved(node)
    publish(client, QUEUE, b"b2", delivery_mode=2, headers={"k": "b"})
    assert drain(client, QUEUE) == [b"a2", b"b2"]


def test_what_is_on_the_disk_only(node: Node) -> None:
    """Contents that are paged out, persistent or spilled, come along."""
    client = opened(node, **{"x-overflow": "spill", "x-max-length": 2})
    bodies = [b"%d" % number + bytes(20_000) for number in range(40)]
    for number, body in enumerate(bodies):
        publish(client, QUEUE, body, delivery_mode=1 + number % 2)
    assert node.state(QUEUE).contents.paged > 0
    whole = node.state(QUEUE).contents.ready_whole
    assert whole > sum(map(len, bodies))
    assert moved(node)["bytes"] == whole == node.state(QUEUE).contents.ready_whole
    assert drain(client, QUEUE) == bodies


def test_holes_that_acks_have_left(node: Node) -> None:
    client = opened(node)
    publish(client, QUEUE, *(b"%d" % number for number in range(20)), delivery_mode=2)
    client.call("basic.consume", 1, queue=QUEUE)
    events = [client.take("basic.deliver", 1) for _ in range(20)]
    for event in events[1::2]:
        client.send("basic.ack", 1, delivery_tag=event.delivery_tag)
    node.settle()
    assert moved(node)["messages"] == 10
    for event in events[0:10:2]:
        client.send("basic.ack", 1, delivery_tag=event.delivery_tag)
    node.settle()
    client.call("basic.cancel", 1, consumer_tag=client_tag(node))
    client.call("basic.recover", 1, requeue=True)
    node.settle()
    assert drain(client, QUEUE) == [b"%d" % number for number in range(10, 20, 2)]


def client_tag(node: Node) -> str:
    """The tag of the only consumer."""
    ((tag, _),) = [each for channel in node.channels() for each in channel.consumers.items()]
    return tag


def test_dead_letters_are_buried_before(node: Node) -> None:
    node.declare("dead", shard=1, durable=True)
    client = opened(node, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    publish(client, QUEUE, b"1", b"2", b"3", delivery_mode=2)
    event = get(client, QUEUE, no_ack=False)
    assert event
    client.send("basic.reject", 1, delivery_tag=event.delivery_tag, requeue=False)
    results = node.move(QUEUE, 1)
    node.settle()
    assert results[0]["result"] == "moved"
    assert drain(client, "dead") == [b"1"]
    moved(node, "dead")
    event = get(client, QUEUE, no_ack=False)
    assert event
    client.send("basic.reject", 1, delivery_tag=event.delivery_tag, requeue=False)
    node.settle()
    pass_ms(node, 200)
    assert drain(client, "dead") == [b"2"]
    assert drain(client, QUEUE) == [b"3"]


def test_dead_letters_without_room_keep_it_where_it_is(node: Node) -> None:
    node.declare("dead", shard=1, durable=True, **{"x-flow-stop-count": 1, "x-flow-resume-count": 0})
    client = opened(node, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-message-ttl": 10})
    publish(client, QUEUE, *(b"%d" % number for number in range(1000)), delivery_mode=2)
    pass_ms(node, 50)
    results = node.move(QUEUE, 1)
    node.settle()
    assert results[0]["result"] == "rolled-back"
    assert "dead letters wait for room" in results[0]["reason"]
    assert node.queue(QUEUE).shard == 0


def test_a_transaction_waits_with_its_settlements(node: Node) -> None:
    """Acks of a transaction, sent before and during a move, count at the queue's home when it is committed."""
    client = opened(node)
    publish(client, QUEUE, b"1", b"2", b"3", delivery_mode=2)
    client.call("tx.select", 1)
    events = [get(client, QUEUE, no_ack=False) for _ in range(3)]
    assert all(events)
    client.send("basic.ack", 1, delivery_tag=1)
    node.settle()
    moved(node)
    client.send("basic.ack", 1, delivery_tag=2)
    client.publish(1, b"4", routing_key=QUEUE, delivery_mode=2)
    results = node.move(QUEUE, 0)
    client.send("tx.commit", 1)
    node.settle()
    client.take("tx.commit-ok", 1)
    assert results[0]["result"] == "moved"
    client.send("basic.ack", 1, delivery_tag=3)
    client.call("tx.rollback", 1)
    client.send("basic.nack", 1, delivery_tag=3, requeue=True)
    client.call("tx.commit", 1)
    contents = node.state(QUEUE).contents
    assert (contents.ready, contents.unacked) == (2, 0)


def test_the_prefetch_of_a_channel_holds_wherever_its_queues_are(node: Node) -> None:
    node.declare("other", shard=0, durable=True)
    client = opened(node)
    client.call("basic.qos", 1, prefetch_count=4, global_=True)
    client.call("basic.consume", 1, queue=QUEUE)
    client.call("basic.consume", 1, queue="other")
    moved(node)
    publisher = open_channel(node)
    for queue in (QUEUE, "other"):
        publish(publisher, queue, *(b"%d" % number for number in range(8)), delivery_mode=2)
    assert client.names(1).count("basic.deliver") == 4
    for _ in range(16):
        event = client.take("basic.deliver", 1)
        client.send("basic.ack", 1, delivery_tag=event.delivery_tag)
        node.settle()
        assert client.names(1).count("basic.deliver") <= 4
    assert not client.names(1)


def test_a_queue_deleted_on_its_way(node: Node) -> None:
    """The queue's consumers are cancelled, and their later settlements are ignored."""
    client = opened(node)
    publish(client, QUEUE, b"1", delivery_mode=2)
    client.call("basic.consume", 1, queue=QUEUE)
    event = client.take("basic.deliver", 1)
    id = node.queue(QUEUE).queue_id
    results = node.move(QUEUE, 1)
    for _ in range(2):
        node.step()
    assert node.router.topology.moves
    node.ask("queue_delete", queue_id=id)
    node.settle()
    assert results[0]["result"] == "no-queue"
    assert client.take("basic.cancel", 1)
    client.send("basic.ack", 1, delivery_tag=event.delivery_tag)
    node.settle()
    assert not client.names(1)
    assert all(id not in node.shard(shard).state.queues for shard in range(2))
    assert not list(node.stored.glob("*/move-*"))


def test_an_auto_delete_queue_goes_when_its_last_consumer_went_on_the_way(node: Node) -> None:
    node.ask("queue_declare", name=QUEUE, durable=True, auto_delete=True)
    node.settle()
    client = open_channel(node)
    client.call("basic.consume", 1, queue=QUEUE)
    node.move(QUEUE, 1 - node.queue(QUEUE).shard)
    client.send("channel.close", 1, code=200, text="")
    node.settle()
    assert node.router.topology.queue("/", QUEUE) is None


def moves_on(node: Node, results: list[dict[str, Any]], shards: tuple[int, ...], *, met: bool = True) -> None:
    """Step the node until a move is over; only these shards write, and without `met` the acceptor meets no shard."""
    for _ in range(200):
        for incarnation in node.acceptors_and_shards():
            while node.change(incarnation) or node.reply(incarnation):
                pass
        if met:
            node.meet(0)
        for client in node.clients.values():
            client.read()
        node.finish(0)
        for shard in range(2):
            node.send_up(0, shard)
            node.send_across(shard, 1 - shard)
            node.finish_shard(shard)
            node.send_down(shard, 0)
        for shard in shards:
            node.commit_shard(shard)
        if results:
            return


def unwritten(node: Node, **arguments: Any) -> Client:
    """Return a client with confirms of a node whose shards do not write on their own; the old home has something to
    write for another queue.
    """
    node.declare("other", shard=0, durable=True)
    client = opened(node, **arguments)
    node.commits = False
    publish(client, "other", b"0", delivery_mode=2)
    client.call("confirm.select", 1)
    return client


def test_what_the_old_home_refused_is_not_confirmed_though_it_dies(node: Node) -> None:
    client = unwritten(node, **{"x-max-length": 1, "x-overflow": "reject-publish"})
    publish(client, QUEUE, b"1", b"2", delivery_mode=2)
    moves_on(node, node.move(QUEUE, 1), (1,))
    node.commits = True
    die(node, 0)
    assert client.take("basic.nack", 1).delivery_tag == 2
    assert client.take("basic.ack", 1).delivery_tag == 1
    assert drain(client, QUEUE) == [b"1"]


def test_what_went_with_a_queue_does_not_enter_again_when_that_comes_back(node: Node) -> None:
    """The old home dies before it has written the publish, and is home again before that is resent."""
    client = unwritten(node)
    publish(client, QUEUE, b"1", delivery_mode=2)
    moves_on(node, node.move(QUEUE, 1), (1,))
    node.kill_shard(0)
    node.start_shard(0)
    moves_on(node, node.move(QUEUE, 0), (0, 1), met=False)
    node.commits = True
    node.settle()
    assert drain(client, QUEUE) == [b"1"]


def test_a_move_that_ends_unseen_leaves_nothing(node: Node) -> None:
    """A shard that has lost its router learns from the snapshot of the next one that the move is over."""
    opened(node)
    before = node.snapshot()
    node.begin_move(QUEUE, 1)
    shard = node.shards[1]
    assert shard is not None
    while node.change(shard):
        pass
    assert shard.core.moving.drained
    shard.core.load(node.version + 1, before)
    assert not shard.core.moving.drained


def drained(node: Node) -> None:
    """Begin a move; go on until the acceptor knows that nothing more comes from the old home."""
    node.begin_move(QUEUE, 1)
    away = node.core(0).moves.away
    for _ in range(20):
        for incarnation in node.acceptors_and_shards():
            while node.change(incarnation):
                pass
        node.finish(0)
        node.send_up(0, 0)
        node.finish_shard(0)
        node.commit_shard(0)
        node.send_down(0, 0)
        if [each.stage for each in away.values()] == [MoveStage.DRAINED]:
            return
    raise AssertionError("the old home does not let go")


def test_who_is_cancelled_on_the_way_of_a_queue_that_stays_gets_nothing_more(node: Node) -> None:
    client = opened(node)
    client.call("basic.consume", 1, queue=QUEUE, consumer_tag="c")
    drained(node)
    client.send("basic.cancel", 1, consumer_tag="c")
    client.read()
    node.abort_move(QUEUE)
    node.settle()
    assert client.take("basic.cancel-ok", 1)
    publish(client, QUEUE, b"1", delivery_mode=2)
    assert drain(client, QUEUE) == [b"1"]


@pytest.mark.parametrize("deaths", [1, 2])
def test_what_is_given_back_on_the_way_counts_though_the_new_home_dies_before_it_has_written_that(
    node: Node, deaths: int
) -> None:
    client = opened(node, **{"x-delivery-limit": 5, "x-queue-type": "quorum"})
    publish(client, QUEUE, b"1", delivery_mode=2)
    first = get(client, QUEUE, no_ack=False)
    assert first
    drained(node)
    client.send("basic.nack", 1, delivery_tag=first.delivery_tag, requeue=True)
    client.read()
    while node.queue(QUEUE).shard == 0:
        node.step()
    node.commits = False
    node.settle()
    for _ in range(deaths):
        assert node.state(QUEUE).contents.ready == 1
        node.kill_shard(1, written=False)
        node.start_shard(1)
        node.settle()
    again = get(client, QUEUE, no_ack=False)
    assert again and again.redelivered
    assert again.properties["headers"]["x-delivery-count"] == 1


def test_what_is_got_on_the_way_of_a_queue_that_stays_is_acked(node: Node) -> None:
    client = opened(node)
    publish(client, QUEUE, b"1", b"2", delivery_mode=2)
    get(client, QUEUE, no_ack=False)
    drained(node)
    client.send("basic.get", 1, queue=QUEUE)
    client.read()
    node.abort_move(QUEUE)
    node.settle()
    event = client.take("basic.get-ok", 1)
    client.send("basic.ack", 1, delivery_tag=event.delivery_tag, multiple=True)
    node.settle()
    recount(node, QUEUE)
    assert node.state(QUEUE).contents.unacked == 0


def test_a_get_that_was_on_its_way_does_not_find_what_others_have_in_hand() -> None:
    """The get leaves before its acceptor knows of the move; the other acceptor has already sent everything."""
    with Node(2, 2, stores=True) as node:
        consumer, getter = opened(node), open_channel(node, 1)
        publish(consumer, QUEUE, b"1", delivery_mode=2)
        consumer.call("basic.consume", 1, queue=QUEUE)
        getter.send("basic.get", 1, queue=QUEUE)
        getter.read()
        node.finish(1)
        drained(node)
        node.finish(0)
        node.send_up(0, 0)
        node.settle()
        assert node.queue(QUEUE).shard == 1
        assert getter.names(1) == ["basic.get-empty"]
        consumer.send("basic.ack", 1, delivery_tag=consumer.take("basic.deliver", 1).delivery_tag)
        node.settle()
        recount(node, QUEUE)
        assert node.state(QUEUE).depth == 0


def test_who_consumes_on_the_way_shares_the_prefetch_of_his_channel(node: Node) -> None:
    """The request waits while the channel's limit comes to span several shards."""
    node.declare("other", shard=0, durable=True)
    client = opened(node)
    client.call("basic.qos", 1, prefetch_count=4, global_=True)
    client.call("basic.consume", 1, queue="other")
    drained(node)
    client.send("basic.consume", 1, queue=QUEUE)
    client.read()
    node.settle()
    assert node.queue(QUEUE).shard == 1
    publisher = open_channel(node)
    for queue in ("other", QUEUE):
        publish(publisher, queue, *(b"%d" % number for number in range(8)), delivery_mode=2)
    assert client.names(1).count("basic.deliver") == 4


def test_who_has_not_seen_the_end_of_a_move_goes_on_with_the_next(node: Node) -> None:
    """The router dies, and its successor announces another move; requests that waited for the first are carried out."""
    client = opened(node)
    drained(node)
    client.send("basic.consume", 1, queue=QUEUE)
    client.read()
    node.abort_move(QUEUE)
    for incarnation in node.acceptors_and_shards():
        while node.change(incarnation):
            pass
    node.finish(0)
    while node.send_up(0, 0):
        pass
    node.finish_shard(0)
    assert not node.router.topology.moves
    node.move(QUEUE, 1)
    node.kill_router(arriving=0)
    node.start_router()
    node.settle()
    assert node.queue(QUEUE).shard == 1
    assert client.take("basic.consume-ok", 1)


def test_a_stop_goes_on_from_its_beginning_where_the_new_home_dies_as_it_takes_the_queue_up(node: Node) -> None:
    client = opened(node, **{"x-flow-stop-count": 3, "x-flow-resume-count": 1})
    publish(client, QUEUE, *[b"%d" % number for number in range(5)], delivery_mode=2)
    stop = node.state(QUEUE).saturation.stop()
    assert stop is not None
    pass_ms(node, 5000)
    id = node.queue(QUEUE).queue_id
    results = node.move(QUEUE, 1)
    while node.router.topology.moves[id].phase != HOMING:
        assert node.step()
    assert id not in node.shard(1).state.queues
    node.kill_shard(1)
    pass_ms(node, 1000)
    node.start_shard(1)
    node.settle()
    assert [result["result"] for result in results] == ["moved"]
    assert node.state(QUEUE).saturation.stop() == stop
    gauge = node.gauges.queue_read(node.queue(QUEUE).slot)
    assert gauge is not None and (gauge.saturated, gauge.saturated_since_us) == (True, stop.since)
