"""Leases: deliveries to consumers with x-lease outlive connections, acceptors and shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from router.model.records import COPYING
from tests.shard.steps import drain, pass_ms, recount
from tests.shard.test_damage import damage
from tests.shard.test_incarnations import delivered, die, numbered, publish, ready
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(2, 2, stores=True) as node:
        yield node


def consume(client: Client, lease: str = "batch", tag: str = "c", prefetch: int = 0, **more: object) -> None:
    """Consume from the queue with a lease; `more` are further x-lease arguments."""
    client.call("basic.qos", 1, prefetch_count=prefetch)
    arguments = {"x-lease": lease, **{f"x-lease-{name}": value for name, value in more.items()}}
    client.call("basic.consume", 1, queue="q", consumer_tag=tag, arguments=arguments)


def end(client: Client, how: str, lease: str = "batch", tag: str = "end") -> None:
    """Settle or give up a lease as a whole."""
    consume(client, lease, tag, end=how)
    client.call("basic.cancel", 1, consumer_tag=tag)


def leased(node: Node, acceptor: int = 0, prefetch: int = 3, **more: object) -> Client:
    """Publish ten messages to a queue; return a client of the acceptor whose consumer leases the first `prefetch`."""
    node.declare("q", durable=True)
    client = open_channel(node, acceptor)
    publish(client, *numbered(*range(10)))
    node.settle()
    consume(client, prefetch=prefetch, **more)
    node.settle()
    assert delivered(client) == [(b"%d" % number, False) for number in range(prefetch)]
    return client


def hang_up(node: Node, client: Client) -> None:
    client.send("channel.close", 1)
    node.settle()


def cancel(node: Node, client: Client) -> None:
    client.call("basic.cancel", 1, consumer_tag="c")
    node.settle()


def die_with_acceptor(node: Node, client: Client) -> None:
    node.kill_acceptor(client.acceptor)
    node.settle()
    node.start_acceptor(client.acceptor)
    node.settle()


GOING: list[Callable[[Node, Client], None]] = [hang_up, cancel, die_with_acceptor]


@pytest.mark.parametrize("go", GOING)
def test_what_a_consumer_had_in_hand_waits_for_the_next_with_its_lease(
    node: Node, go: Callable[[Node, Client], None]
) -> None:
    go(node, leased(node))
    assert ready(node) == (7, 3)
    for tag in ("second", "third"):
        again = open_channel(node, 1)
        consume(again, tag=tag)
        node.settle()
        assert delivered(again) == [(body, True) for body in numbered(0, 1, 2)]
        hang_up(node, again)
    other = open_channel(node, 1)
    assert drain(other, "q") == numbered(*range(3, 10))
    assert ready(node) == (0, 3)
    recount(node, "q")


def test_who_comes_with_the_id_of_a_lease_gets_nothing_new_however_much_there_is(node: Node) -> None:
    hang_up(node, leased(node))
    again = open_channel(node)
    consume(again, prefetch=100)
    publish(again, b"new")
    node.settle()
    assert len(delivered(again)) == 3
    again.send("basic.ack", 1, delivery_tag=2, multiple=True)
    node.settle()
    assert (delivered(again), ready(node)) == ([], (8, 1))
    cancel(node, again)
    third = open_channel(node)
    consume(third)
    node.settle()
    assert delivered(third) == [(b"2", True)]


def test_a_lease_that_is_acked_as_a_whole_is_gone(node: Node) -> None:
    hang_up(node, leased(node))
    driver = open_channel(node, 1)
    end(driver, "ack")
    assert ready(node) == (7, 0)
    end(driver, "ack")
    assert ready(node) == (7, 0)
    consume(driver, prefetch=2)
    node.settle()
    assert delivered(driver) == [(b"3", False), (b"4", False)]
    recount(node, "q")


def test_a_lease_that_is_given_up_goes_back_to_its_place(node: Node) -> None:
    hang_up(node, leased(node))
    driver = open_channel(node, 1)
    end(driver, "requeue")
    assert drain(driver, "q") == numbered(*range(10))


def test_a_lease_in_somebodys_hand_is_taken_over_and_its_consumer_cancelled(node: Node) -> None:
    first = leased(node)
    second = open_channel(node, 1)
    consume(second)
    node.settle()
    assert first.take("basic.cancel", 1).consumer_tag == "c"
    assert [body for body, _ in delivered(second)] == numbered(0, 1, 2)
    first.send("basic.ack", 1, delivery_tag=3, multiple=True)
    node.settle()
    assert ready(node) == (7, 3)
    end(first, "ack")
    assert second.take("basic.cancel", 1).consumer_tag == "c" and ready(node) == (7, 0)


@pytest.mark.parametrize("go", [cancel, lambda node, client: consume(open_channel(node, 1), tag="second")])
def test_an_earlier_consumer_has_nothing_of_its_lease_in_a_later_incarnation(
    node: Node, go: Callable[[Node, Client], None]
) -> None:
    client = leased(node)
    go(node, client)
    end(open_channel(node, 1), "requeue")
    assert ready(node) == (10, 0)
    die(node)
    assert ready(node) == (10, 0)
    client.send("basic.ack", 1, delivery_tag=3, multiple=True)
    node.settle()
    assert ready(node) == (10, 0)
    node.move("q", 1)
    node.settle()
    assert drain(open_channel(node), "q") == numbered(*range(10))


def test_a_lease_that_nobody_comes_back_for_expires(node: Node) -> None:
    client = leased(node, expires=5000)
    pass_ms(node, 60_000)
    assert ready(node) == (7, 3)
    hang_up(node, client)
    pass_ms(node, 4999)
    assert ready(node) == (7, 3)
    pass_ms(node, 1)
    assert ready(node) == (10, 0)
    assert drain(open_channel(node), "q") == numbered(*range(10))


def test_a_lease_of_nothing_is_none(node: Node) -> None:
    client = leased(node)
    client.send("basic.ack", 1, delivery_tag=3, multiple=True)
    node.settle()
    assert [body for body, _ in delivered(client)] == numbered(3, 4, 5)
    client.send("basic.nack", 1, delivery_tag=0, multiple=True, requeue=True)
    cancel(node, client)
    assert list(node.state("q").leases) == ["batch"]  # messages that were redelivered before the cancel
    end(open_channel(node), "ack")
    assert not node.state("q").leases and ready(node) == (4, 0)


@pytest.mark.parametrize("go", GOING)
def test_who_was_cancelled_before_anything_came_has_a_lease_of_nothing(
    node: Node, go: Callable[[Node, Client], None]
) -> None:
    """An empty lease stays empty, however its consumers go and in later incarnations, so its answer is repeatable."""
    node.declare("q", durable=True)
    client = open_channel(node)
    consume(client)
    cancel(node, client)
    publish(client, *numbered(0, 1))
    node.settle()
    for death in (False, True, True):
        if death:
            die(node)
        again = open_channel(node, 1)
        consume(again)
        node.settle()
        assert (delivered(again), ready(node)) == ([], (2, 0))
        go(node, again)
    end(open_channel(node), "ack")
    assert not node.state("q").leases
    die(node)
    third = open_channel(node)
    consume(third)
    node.settle()
    assert [body for body, _ in delivered(third)] == numbered(0, 1)


def test_who_is_gone_before_anything_came_has_no_lease(node: Node) -> None:
    node.declare("q", durable=True)
    client = open_channel(node)
    consume(client)
    hang_up(node, client)
    assert not node.state("q").leases


def test_a_lease_of_nothing_expires(node: Node) -> None:
    node.declare("q", durable=True)
    client = open_channel(node)
    consume(client, expires=5000)
    cancel(node, client)
    pass_ms(node, 4999)
    assert node.state("q").leases
    pass_ms(node, 1)
    assert not node.state("q").leases


def test_who_holds_a_lease_is_told_that_its_queue_is_gone(node: Node) -> None:
    hang_up(node, leased(node))
    again = open_channel(node)
    consume(again)
    open_channel(node, 1).call("queue.delete", 1, queue="q")
    node.settle()
    assert again.take("basic.cancel", 1).consumer_tag == "c"


def test_leases_of_different_ids_share_a_queue(node: Node) -> None:
    hang_up(node, leased(node))
    second = open_channel(node, 1)
    consume(second, lease="other", prefetch=3)
    node.settle()
    assert [body for body, _ in delivered(second)] == numbered(3, 4, 5)
    hang_up(node, second)
    end(open_channel(node), "ack", "batch")
    third = open_channel(node)
    consume(third, lease="other")
    node.settle()
    assert [body for body, _ in delivered(third)] == numbered(3, 4, 5)


@pytest.mark.parametrize("go", GOING)
def test_a_lease_outlives_its_shard(node: Node, go: Callable[[Node, Client], None]) -> None:
    go(node, leased(node))
    die(node)
    die(node)
    assert ready(node) == (7, 3)
    again = open_channel(node, 1)
    consume(again)
    node.settle()
    assert [body for body, _ in delivered(again)] == numbered(0, 1, 2)
    assert drain(open_channel(node), "q") == numbered(*range(3, 10))


def test_a_consumer_with_a_lease_outlives_its_shard_and_is_sent_nothing_again(node: Node) -> None:
    first = leased(node)
    die(node)
    assert (delivered(first), ready(node)) == ([], (7, 3))
    first.send("basic.ack", 1, delivery_tag=1)
    node.settle()
    assert (delivered(first), ready(node)) == ([], (7, 2))
    hang_up(node, first)
    again = open_channel(node)
    consume(again)
    node.settle()
    assert [body for body, _ in delivered(again)] == numbered(1, 2)
    die(node)
    assert (delivered(again), ready(node)) == ([], (7, 2))
    again.send("basic.ack", 1, delivery_tag=2, multiple=True)
    node.settle()
    assert ready(node) == (7, 0)


def test_a_consumer_with_a_message_that_its_shard_had_not_stored_is_cancelled(node: Node) -> None:
    node.declare("q", durable=True)
    client = open_channel(node)
    publish(client, b"0")
    node.settle()
    consume(client)
    node.commits = False
    publish(client, b"1")
    node.settle()
    assert delivered(client) == [(b"0", False), (b"1", False)]
    node.commits = True
    die(node)
    client.take("basic.cancel", 1)
    assert ready(node) == (1, 1)
    consume(client)
    node.settle()
    assert delivered(client) == [(b"0", True)]
    other = open_channel(node, 1)
    other.call("basic.consume", 1, queue="q", consumer_tag="other")
    node.settle()
    assert delivered(other) == [(b"1", True)]


def test_a_lease_ends_for_good_before_it_is_said_to_have_ended(node: Node) -> None:
    hang_up(node, leased(node))
    node.commits = False
    driver = open_channel(node)
    driver.send("basic.consume", 1, queue="q", consumer_tag="end", arguments={"x-lease": "batch", "x-lease-end": "ack"})
    node.settle()
    assert "basic.consume-ok" not in driver.names(1)
    node.kill_shard(0, written=False)
    node.commits = True
    node.start_shard(0)
    node.settle()
    driver.take("basic.consume-ok", 1)
    die(node)
    assert ready(node) == (7, 0)


def test_a_damaged_message_is_missing_from_its_lease_and_holds_up_nobody(node: Node) -> None:
    node.declare("q", durable=True)
    client = open_channel(node)
    for body in numbered(*range(5)):
        publish(client, body)
        node.settle()
    consume(client, prefetch=3)
    node.settle()
    hang_up(node, client)
    node.kill_shard(0)
    damage(node.stored / "0", 1)
    node.start_shard(0)
    stalls = node.shard(0).stalls
    stalls.set_aside = node.shards[0].store.set_aside
    node.settle()
    again = open_channel(node)
    consume(again)
    node.settle()
    assert delivered(again) == [(b"0", True), (b"2", True)]
    assert (ready(node), stalls.damaged, len(list((node.stored / "0" / "damaged").iterdir()))) == ((2, 2), 1, 1)
    totals = node.state("q").contents.totals
    assert (totals.redelivered, totals.acked, totals.dropped) == (2, 0, 1)
    again.send("basic.ack", 1, delivery_tag=2, multiple=True)
    node.settle()
    assert drain(open_channel(node, 1), "q") == numbered(3, 4)


def test_a_lease_expires_in_the_next_incarnation_of_its_shard(node: Node) -> None:
    hang_up(node, leased(node, expires=5000))
    die(node)
    assert ready(node) == (7, 3)
    pass_ms(node, 5000)
    assert ready(node) == (10, 0)
    die(node)
    assert ready(node) == (10, 0) and not node.state("q").leases


def test_a_queue_that_goes_takes_its_leases_along(node: Node) -> None:
    hang_up(node, leased(node))
    client = open_channel(node)
    client.call("queue.delete", 1, queue="q")
    node.settle()
    node.declare("q", durable=True)
    publish(client, b"new")
    die(node)
    consume(client)
    node.settle()
    assert [body for body, _ in delivered(client)] == [b"new"]
    assert list(node.state("q").leases) == ["batch"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x-lease": ""}, "invalid arg 'x-lease' for queue 'q' in vhost '/': expected a text of 1 to 255 bytes"),
        ({"x-lease": "x" * 256}, "expected a text of 1 to 255 bytes"),
        ({"x-lease": 5}, "expected a text of 1 to 255 bytes"),
        ({"x-lease-end": "ack"}, "invalid arg 'x-lease-end' for queue 'q' in vhost '/': there is no x-lease"),
        ({"x-lease": "l", "x-lease-end": "drop"}, "expected ack or requeue"),
        ({"x-lease": "l", "x-lease-end": []}, "expected ack or requeue"),
        ({"x-lease": "l", "x-lease-expires": 999}, "expected 1000 to 604800000 milliseconds"),
        ({"x-lease": "l", "x-lease-expires": True}, "expected 1000 to 604800000 milliseconds"),
        ({"x-lease": "l", "x-lease-expires": "1h"}, "expected 1000 to 604800000 milliseconds"),
    ],
)
def test_what_is_no_lease_is_refused(node: Node, arguments: dict[str, object], said: str) -> None:
    node.declare("q")
    client = open_channel(node)
    client.send("basic.consume", 1, queue="q", consumer_tag="c", arguments=arguments)
    node.settle()
    close = client.take("channel.close", 1)
    assert close.code == 406 and said in close.text


def test_a_queue_with_priorities_has_no_leases_and_who_does_not_ack_neither(node: Node) -> None:
    node.declare("q", **{"x-max-priority": 5})
    for options, said in (({}, "the queue has priorities"), ({"no_ack": True}, "nothing is in hand without acks")):
        client = open_channel(node)
        client.send("basic.consume", 1, queue="q", consumer_tag="c", arguments={"x-lease": "l"}, **options)
        node.settle()
        assert said in client.take("channel.close", 1).text


def moves(node: Node, shard: int) -> None:
    """Move the queue."""
    results = node.move("q", shard)
    node.settle()
    assert results[0]["result"] == "moved", results


def test_a_lease_moves_with_its_queue(node: Node) -> None:
    """With its consumer, which is filled no further, or without; the store of the new home has it."""
    client = leased(node)
    moves(node, 1)
    client.send("basic.ack", 1, delivery_tag=1)
    node.settle()
    assert ready(node) == (7, 2)
    assert delivered(client) == []
    hang_up(node, client)
    moves(node, 0)
    die(node)
    assert ready(node) == (7, 2)
    again = open_channel(node)
    again.send("basic.consume", 1, queue="q", consumer_tag="c", arguments={"x-lease": "batch"})
    node.settle()
    assert delivered(again) == [(body, True) for body in numbered(1, 2)]
    end(open_channel(node), "ack")
    moves(node, 1)
    assert drain(open_channel(node), "q") == numbered(*range(3, 10))


def test_a_lease_stays_with_a_queue_whose_move_is_rolled_back(node: Node) -> None:
    client = leased(node)
    results = node.begin_move("q", 1)
    node.abort_move("q")
    node.settle()
    assert results[0]["result"] == "rolled-back"
    assert ready(node) == (7, 3)
    hang_up(node, client)
    assert ready(node) == (7, 3)
    for shard in (0, 1):
        node.kill_shard(shard)
        node.start_shard(shard)
    node.settle()
    assert ready(node) == (7, 3)


def test_who_asks_for_a_lease_while_the_queue_comes_home_has_it(node: Node) -> None:
    """The shard asked died before it received the request; its successor learns of it as the queue comes home."""
    client = leased(node)
    hang_up(node, client)
    again = open_channel(node)
    node.kill_shard(0)
    again.send("basic.consume", 1, queue="q", consumer_tag="c", arguments={"x-lease": "batch"})
    again.read()
    node.finish(0)
    node.start_shard(0)
    results = node.move("q", 1)
    node.abort_move("q")
    for incarnation in node.acceptors_and_shards():
        while node.change(incarnation):
            pass
    node.settle()
    assert results[0]["result"] == "rolled-back"
    assert delivered(again) == [(body, True) for body in numbered(0, 1, 2)]
    assert ready(node) == (7, 3)


def test_what_is_acked_during_a_move_counts_though_the_consumer_goes_before_its_end(node: Node) -> None:
    client = leased(node)
    results = node.begin_move("q", 1)
    while node.router.topology.moves[node.queue("q").queue_id].phase != COPYING:
        node.step()
    client.send("basic.ack", 1, delivery_tag=2, multiple=True)
    client.read()
    client.send("channel.close", 1)
    client.read()
    node.settle()
    assert results[0]["result"] == "moved"
    assert ready(node) == (7, 1)
    again = open_channel(node)
    consume(again)
    node.settle()
    assert delivered(again) == [(b"2", True)]


def test_what_was_acked_when_a_shard_died_counts_though_the_consumer_has_gone(node: Node) -> None:
    """The lease was stored before its second consumer came."""
    hang_up(node, leased(node))
    again = open_channel(node)
    consume(again)
    node.settle()
    assert delivered(again) == [(body, True) for body in numbered(0, 1, 2)]
    node.kill_shard(0)
    again.send("basic.ack", 1, delivery_tag=2, multiple=True)
    again.read()
    again.send("channel.close", 1)
    again.read()
    node.finish(0)
    node.start_shard(0)
    node.settle()
    assert ready(node) == (7, 1)
