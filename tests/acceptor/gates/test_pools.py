"""Limits over several queues: of an exchange, a routing key, a user, a vhost, or the node."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pytest

from acceptor import questions
from acceptor.gates import claims
from penstock.limits.watermarks import overshoot_of
from tests.raw import JAVA
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        node.declare("a", shard=0)
        node.declare("b", shard=1)
        node.bind("x", "a", "b", type="direct", key="both")
        node.bind("x", "a", type="direct", key="k.a")
        node.bind("x", "b", type="direct", key="k.b")
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    client = node.connect(properties=JAVA)
    client.call("channel.open", 1)
    client.call("channel.open", 2)
    return client


def limit(node: Node, apply_to: str, pattern: str = "", vhost: str = "/", **definition: Any) -> None:
    """Set the policy, or delete it."""
    spelled = {key.replace("_", "-"): value for key, value in definition.items()}
    node.policy("p", pattern, spelled or None, apply_to, vhost)


def publish(client: Client, count: int, key: str, exchange: str = "x", channel: int = 1) -> None:
    for number in range(count):
        client.publish(channel, b"%d" % number, exchange=exchange, routing_key=key)
    client.node.settle()


def held(client: Client, channel: int = 1) -> str:
    gate = client.connection.channels[channel].held_by
    return "" if gate is None else str(gate)


def depths(node: Node) -> tuple[int, int]:
    return node.state("a").depth, node.state("b").depth


def drain(node: Node, client: Client, queue: str, count: int) -> None:
    for _ in range(count):
        client.send("basic.get", 2, queue=queue, no_ack=True)
    node.settle(rechecks=1)


def test_the_sum_of_the_queues_of_an_exchange(node: Node, client: Client) -> None:
    limit(node, "exchanges", "^x$", sum_stop_count=10, sum_resume_count=4)
    publish(client, 6, "k.a")
    publish(client, 30, "k.b")
    at_a, at_b = depths(node)
    assert at_a == 6 and 11 <= at_a + at_b <= 12
    assert held(client) == (f"exchange 'x' in vhost '/', all of 2 queues: {at_a + at_b} of 10 messages, resume at 4")
    publish(client, 3, "k.a", channel=2)
    assert depths(node)[0] == 6, "no other queue of the exchange either"
    publish(client, 3, "a", exchange="", channel=2)
    drain(node, client, "a", 3)
    assert depths(node)[1] == at_b and held(client), "resume mark not reached"
    drain(node, client, "b", at_b)
    node.settle(rechecks=2)
    assert depths(node)[1] > 0


def test_the_deepest_of_the_queues_of_an_exchange(node: Node, client: Client) -> None:
    limit(node, "exchanges", "^x$", deepest_stop_count=10, deepest_resume_count=8)
    publish(client, 8, "k.a")
    publish(client, 8, "k.b")
    assert not held(client)
    publish(client, 30, "k.b")
    assert 10 <= depths(node)[1] <= 12
    assert "exchange 'x' in vhost '/', the deepest of 2 queues: " in held(client)
    publish(client, 3, "k.a", channel=2)
    assert depths(node)[0] == 8


def test_a_message_to_several_queues_counts_in_each(node: Node, client: Client) -> None:
    limit(node, "exchanges", "^x$", sum_stop_count=20)
    publish(client, 50, "both")
    assert 20 <= sum(depths(node)) <= 24 and held(client)


def test_bytes(node: Node, client: Client) -> None:
    limit(node, "exchanges", "^x$", sum_length_bytes="1 MiB", sum_stop_size="50 %")
    for _ in range(40):
        client.publish(1, bytes(32 * 1024), exchange="x", routing_key="k.a")
    node.settle()
    assert 512 * 1024 < node.state("a").depth_bytes <= (512 + 64 + 32) * 1024
    assert "of 524288 bytes, resume at 458752" in held(client)


@pytest.mark.parametrize("pattern", [r"^k\.", "wildcard:k.*", "wildcard:k.>"])
def test_routing_keys(node: Node, client: Client, pattern: str) -> None:
    limit(node, "routing_keys", "^x$", routing_key=pattern, sum_stop_count=10)
    publish(client, 6, "k.a")
    publish(client, 30, "k.b")
    assert 11 <= sum(depths(node)) <= 12
    assert held(client).startswith(f"routing keys {pattern} of exchange 'x' in vhost '/', all of 2 queues: ")
    before = depths(node)
    publish(client, 3, "both", channel=2)
    assert depths(node) == (before[0] + 3, before[1] + 3), "another key"


def test_queues_that_no_such_key_comes_to_do_not_count(node: Node, client: Client) -> None:
    """A queue does not count if no such key matches its binding, or a binding of an exchange on the way."""
    node.declare("news")
    node.declare("further")
    node.bind("t", "a", type="topic", key="PRICES.#")
    node.bind("t", "news", type="topic", key="NEWS.#")
    node.bind("next", "further", type="topic", key="#.LSE")
    for key in ("*.NYSE", "NEWS.LSE"):
        node.ask("exchange_bind", destination="next", source="t", key=key)
    publish(client, 30, "NEWS.LSE", exchange="t", channel=2)
    limit(node, "routing_keys", "^t$", routing_key="wildcard:PRICES.>", sum_stop_count=10)
    publish(client, 12, "PRICES.NYSE", exchange="t")
    assert held(client).startswith("routing keys wildcard:PRICES.> of exchange 't' in vhost '/', all of 1 queues: 1")
    assert (node.state("news").depth, node.state("further").depth) == (30, 30)
    node.ask("exchange_bind", destination="next", source="t", key="#.LSE")
    publish(client, 1, "PRICES.LSE", exchange="t", channel=2)
    assert "all of 2 queues" in held(client)


def test_the_queues_of_a_user(node: Node, client: Client) -> None:
    limit(node, "users", "^guest$", sum_stop_count=10)
    publish(client, 6, "a", exchange="")
    publish(client, 30, "b", exchange="")
    assert 11 <= sum(depths(node)) <= 12
    assert held(client).startswith("user 'guest' in vhost '/', all of 2 queues: ")


@pytest.mark.parametrize(("apply_to", "name"), [("vhosts", "vhost '/'"), ("node", "the node")])
def test_vhost_and_node(node: Node, client: Client, apply_to: str, name: str) -> None:
    limit(node, apply_to, ".*", vhost="", sum_stop_count=10)
    publish(client, 6, "a", exchange="")
    publish(client, 30, "k.b")
    assert 11 <= sum(depths(node)) <= 12
    assert held(client).startswith(f"{name}, all of 2 queues: ")
    limit(node, apply_to, vhost="")
    node.settle()
    assert not held(client) and depths(node) == (6, 30)


@pytest.mark.parametrize("after", [{}, {"sum_stop_count": 100}, {"deepest_stop_count": 50}], ids=str)
def test_who_is_held_goes_on_when_the_limit_is_raised_or_gone(
    node: Node, client: Client, after: dict[str, Any]
) -> None:
    limit(node, "exchanges", "^x$", sum_stop_count=10)
    publish(client, 30, "k.a")
    assert held(client)
    limit(node, "exchanges", "^x$", **after)
    node.settle()
    assert not held(client) and depths(node) == (30, 0)


def test_a_lowered_limit_stops_at_once(node: Node, client: Client) -> None:
    limit(node, "exchanges", "^x$", sum_stop_count=100)
    publish(client, 30, "k.a")
    limit(node, "exchanges", "^x$", sum_stop_count=10)
    publish(client, 5, "k.b")
    assert held(client) and depths(node) == (30, 0)


def test_a_queue_that_is_bound_or_deleted_counts_or_does_not(node: Node, client: Client) -> None:
    node.declare("c")
    publish(client, 8, "c", exchange="")
    limit(node, "exchanges", "^x$", sum_stop_count=10)
    publish(client, 5, "k.a")
    assert not held(client)
    node.bind("x", "c", type="direct", key="c")
    publish(client, 5, "k.a")
    assert held(client) and depths(node)[0] == 5
    client.call("queue.delete", 2, queue="c")
    node.settle(rechecks=1)
    assert depths(node)[0] == 10 and not held(client)


def test_confirms_are_withheld_until_there_is_room(node: Node, client: Client) -> None:
    limit(node, "exchanges", "^x$", sum_stop_count=4, sum_resume_count=2)
    client.call("confirm.select", 1)
    publish(client, 5, "k.a")
    confirmed = [event.delivery_tag for event in client.events[1] if event.name == "basic.ack"]
    assert max(confirmed, default=0) < 5 and held(client)
    assert [cause["kind"] for cause in questions.held(node.core(0))[0]["causes"]] == ["limit"]
    drain(node, client, "a", 3)
    assert max(event.delivery_tag for event in client.events[1] if event.name == "basic.ack") == 5
    assert not held(client)


def test_a_transaction_waits_for_room(node: Node, client: Client) -> None:
    limit(node, "exchanges", "^x$", sum_stop_count=10, sum_resume_count=2)
    publish(client, 30, "k.a", channel=2)
    before = depths(node)[0]
    client.call("tx.select", 1)
    publish(client, 2, "k.b")
    client.send("tx.commit", 1)
    node.settle()
    assert depths(node) == (before, 0) and held(client)
    limit(node, "exchanges", "^x$")
    node.settle()
    assert depths(node) == (30, 2) and client.take("tx.commit-ok", 1)


def test_a_transaction_that_waits_for_more_room_claims_none_meanwhile() -> None:
    with Node(acceptors=2) as node:
        node.declare("q")
        limit(node, "users", "^guest$", sum_stop_count=10, sum_resume_count=2)
        other, committer = open_channel(node, acceptor=1), open_channel(node, acceptor=0)
        publish(other, 10, "q", exchange="")
        committer.call("tx.select", 1)
        for _ in range(2):
            committer.publish(1, b"", routing_key="q")
        committer.send("tx.commit", 1)
        committer.read()
        assert committer.connection.channels[1].runs_at_gates()
        other.publish(1, b"", routing_key="q")
        other.read()
        assert not held(other), "there is room for one, and none for two"
        node.settle()
        assert depth_of_all(node) == 11


def test_without_such_policies_there_are_no_pools(node: Node, client: Client) -> None:
    limit(node, "exchanges", "^x$", max_length=1000)
    publish(client, 5, "both")
    acceptor = node.core(0)
    assert not acceptor.gates.pools.active and not acceptor.gates.pools.by_limit
    limit(node, "exchanges", "^y$", sum_length=1000)
    publish(client, 5, "both")
    assert acceptor.gates.pools.active and not acceptor.gates.pools.by_limit


@pytest.mark.parametrize("shared", ["sum", "deepest"])
@pytest.mark.parametrize("seed", range(6))
def test_a_queue_counts_on_its_way_to_another_shard(node: Node, client: Client, seed: int, shared: str) -> None:
    """The depth is right whoever learns of the new home first: the old shard, the new shard, or the acceptor."""
    limit(node, "exchanges", "^x$", **{f"{shared}_stop_count": 10, f"{shared}_resume_count": 4})
    publish(client, 4, "k.b")
    publish(client, 30, "k.a")
    (pool,) = node.core(0).gates.pools.by_limit.values()
    at_a, at_b = depths(node)
    depth = at_a + at_b if shared == "sum" else at_a
    assert held(client) and pool.depth()[0] == depth
    chance = Random(seed)
    for home in (1, 0, 1):
        results = node.move("a", home)
        while not results or node.router.topology.moves:
            incarnation = chance.choice(node.acceptors_and_shards())
            shard = chance.randrange(2)
            chance.choice(
                [
                    partial(node.change, incarnation), partial(node.reply, incarnation), partial(node.finish, 0),
                    partial(node.send_up, 0, shard), partial(node.finish_shard, shard),
                    partial(node.send_down, shard, 0), partial(node.send_across, shard, 1 - shard),
                ]
            )()  # fmt: skip
            pool.turn = -1
            assert pool.is_saturated() and pool.depth()[0] == depth
        assert results[0]["result"] == "moved"
        node.settle()
        assert depths(node) == (at_a, at_b)
    drain(node, client, "a", at_a)
    assert depths(node)[0] > 0


def test_the_queues_of_a_user_whatever_acceptor_its_clients_are_at() -> None:
    """Each connection has its own queue, so neither acceptor publishes to a queue of the other."""
    with Node(acceptors=2, flow={"parking_bytes": 1 << 26}) as node:
        limit(node, "users", "^guest$", sum_stop_count=100, sum_resume_count=50)
        clients = []
        for number in range(8):
            node.declare(f"q{number}")
            clients.append(node.connect(number % 2))
            clients[-1].call("channel.open", 1)
        for number, one in enumerate(clients):
            for _ in range(100):
                one.publish(1, b"", routing_key=f"q{number}")
        node.settle(rechecks=3)
        assert depth_of_all(node) == 101
        reader = node.connect(1)
        reader.call("channel.open", 2)
        drain(node, reader, "q0", node.state("q0").depth)
        drain(node, reader, "q1", node.state("q1").depth)
        node.ask("queue_delete", queue_id=node.queue("q2").queue_id)
        node.settle(rechecks=3)
        assert 50 < depth_of_all(node) <= 101


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("acceptors", [2, 4])
@pytest.mark.parametrize("mark", ["count", "size"])
def test_a_sum_is_exact_whatever_is_under_way(acceptors: int, mark: str, seed: int) -> None:
    """Turns are delayed arbitrarily: no acceptor knows what the others have sent."""
    stop, body, chance = {"count": 60, "size": 60_000}[mark], bytes(800), Random(seed)
    with Node(acceptors, shards=2, flow={"parking_bytes": 1 << 26}) as node:
        limit(node, "users", "^guest$", **{f"sum_stop_{mark}": stop, f"sum_resume_{mark}": stop // 2})
        for number in range(3):
            node.declare(f"q{number}", number % 2)
        node.bind("x", "q0", "q1")
        clients = [open_channel(node, acceptor=number % acceptors) for number in range(2 * acceptors)]
        reader = open_channel(node)
        deepest = 0
        for _ in range(600):
            acceptor, shard = chance.randrange(acceptors), chance.randrange(2)
            one, queue = chance.choice(clients), f"q{chance.randrange(3)}"
            step = chance.randrange(8)
            if step < 2:
                for _ in range(chance.randrange(40)):
                    one.publish(1, body, routing_key=queue)
                one.read()
            elif step == 2:
                one.publish(1, body, exchange="x")
                one.read()
            elif step == 3:
                reader.send("basic.get", 1, queue=queue, no_ack=True)
                reader.read()
            elif step == 4:
                node.recheck(acceptor)
            else:
                node.finish(acceptor)
                chance.choice(
                    [
                        partial(node.send_up, acceptor, shard), partial(node.finish_shard, shard),
                        partial(node.send_down, shard, acceptor), partial(node.step, None),
                    ]
                )()  # fmt: skip
            depth = bytes_of_all(node) if mark == "size" else depth_of_all(node)
            # A message for two of the queues counts twice and is not split, nor does a mark in bytes split one.
            assert depth <= stop + 1 + acceptors * (1 if mark == "count" else 2 * 1000)
            deepest = max(deepest, depth)
        assert deepest > stop
        node.settle(rechecks=3)
        node.settle()
        (pool,) = node.core(0).gates.pools.by_limit.values()
        assert node.gauges.claim(pool.claim.place, 0, 0, 0, 0) == (0, 0), "nothing is under way"


def test_without_a_place_to_count_parts_are_as_equal_as_can_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims.Claims, "place_of", lambda self, name: claims.NO_PLACE)
    with Node(acceptors=2, flow={"parking_bytes": 1 << 26}) as node:
        limit(node, "users", "^guest$", sum_stop_count=100)
        for number in range(2):
            node.declare(f"q{number}")
            publish(open_channel(node, acceptor=number), 100, f"q{number}", exchange="")
        node.settle(rechecks=3)
        assert 100 < depth_of_all(node) <= 100 + 2 * overshoot_of(100)


def bytes_of_all(node: Node) -> int:
    return sum(node.state(queue.name).depth_bytes for queue in node.router.topology.queues())


def depth_of_all(node: Node) -> int:
    return sum(node.state(queue.name).depth for queue in node.router.topology.queues())


def test_an_acceptor_that_is_started_again_knows_the_queues_of_users() -> None:
    with Node(acceptors=2, flow={"parking_bytes": 1 << 26}) as node:
        limit(node, "users", "^guest$", sum_stop_count=100, sum_resume_count=50)
        node.declare("a")
        node.declare("b")
        first, second = node.connect(0), node.connect(1)
        for one in (first, second):
            one.call("channel.open", 1)
        publish(first, 300, "a", exchange="")
        assert node.state("a").depth > 100
        node.kill_acceptor(0)
        node.settle(rechecks=1)
        publish(second, 50, "b", exchange="")
        assert node.state("b").depth == 0 and held(second).startswith("user 'guest' in vhost '/', all of 2 queues: ")
        node.ask("queue_delete", queue_id=node.queue("a").queue_id)
        node.declare("c")
        node.settle(rechecks=2)
        assert node.state("b").depth == 50 and not held(second)
        (pool,) = node.core(1).gates.pools.by_limit.values()
        assert node.gauges.user_queues(pool.user) == [node.queue("b").queue_id], "none of what is gone is kept"
