"""A queue's power over publishers to an exchange: no more than the rights of the user who bound it there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.holding.publishing_channels import channels
from tests.hostile import FULL, KINDS, STYLES
from tests.router.making import rabbit_hash
from tests.shard.steps import drain, get, publish, recount
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

MALLORY = "mallory"
COUNT = 60
MIB = 1 << 20


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2, stores=True, flow={"unprivileged_limit": MIB}) as node:
        node.command("user_add", name=MALLORY, password_hash=rabbit_hash("m"), tags=[])
        permit(node, "^mal")
        node.declare("good", 0, durable=True)
        node.bind("news", "good")
        yield node


def permit(node: Node, write: str) -> None:
    """Set where Mallory may write; she may read everything."""
    node.command("permission_set", user=MALLORY, vhost="/", configure="^mal", write=write, read=".*")


def attack(node: Node, arguments: dict[str, Any], exchange: str = "news", user: str = MALLORY, **style: Any) -> Client:
    """Declare Mallory's queue `mal` on the other shard, bound to an exchange; return the client that declared it."""
    owner = open_channel(node)
    node.ask("queue_place", vhost="/", name="mal", shard=1)
    owner.call("queue.declare", 1, queue="mal", arguments=arguments, **style)
    node.bind(exchange, "mal", user=user, connection=owner.connection.id)
    return owner


def goes_on(client: Client) -> None:
    """Check that all publishes of a client are in the others' queue, and none of them waits."""
    channel = client.connection.channels[1]
    assert channel.held_by is None and not channel.gates and not channel.inbox and not channel.withheld
    assert client.node.state("good").depth == COUNT


def held(client: Client) -> bool:
    return client.connection.channels[1].held_by is not None


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_queue_does_nothing_to_publishes(node: Node, kind: str, style: str) -> None:
    attack(node, KINDS[kind], **STYLES[style])
    publisher = open_channel(node)
    for _ in range(COUNT // 10):
        publish(publisher, "", *[b"news"] * 10, exchange="news", mandatory=True)
    goes_on(publisher)
    assert "basic.return" not in publisher.names(1)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
def test_nor_to_confirms(node: Node, kind: str, style: str) -> None:
    attack(node, KINDS[kind], **STYLES[style])
    publisher = open_channel(node)
    publisher.call("confirm.select", 1)
    for _ in range(COUNT // 10):
        publish(publisher, "", *[b"news"] * 10, exchange="news")
    goes_on(publisher)
    assert set(publisher.names(1)) == {"basic.ack"} and publisher.events[1][-1].delivery_tag == COUNT


@pytest.mark.parametrize("home", [0, 1], ids=["one shard", "two shards"])
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
def test_nor_to_transactions(node: Node, kind: str, style: str, home: int) -> None:
    attack(node, KINDS[kind], **STYLES[style])
    if not home:
        node.ask("queue_delete", queue_id=node.queue("good").queue_id)
        node.declare("good", 1, durable=True)
        node.bind("news", "good")
    publisher = open_channel(node)
    publisher.call("tx.select", 1)
    for _ in range(COUNT // 10):
        publish(publisher, "", *[b"news"] * 10, exchange="news")
        publisher.call("tx.commit", 1)
    goes_on(publisher)
    most = KINDS[kind].get("x-max-length") if "x-overflow" in KINDS[kind] and kind.startswith(("re", "ring")) else None
    assert most is None or node.state("mal").depth <= most, "it takes what it has room for"


def test_who_may_write_grants_it(node: Node) -> None:
    """A user who may write grants the power, and takes it back by losing the right; waiting publishes go on."""
    permit(node, "^(mal|news)")
    attack(node, FULL, durable=True)
    publisher = open_channel(node)
    publisher.call("confirm.select", 1)
    publish(publisher, "", *[b"news"] * COUNT, exchange="news")
    assert held(publisher) and node.state("good").depth < COUNT
    permit(node, "^mal")
    node.settle()
    goes_on(publisher)
    assert publisher.events[1][-1].delivery_tag == COUNT, "the confirm that was withheld is given"
    permit(node, "^(mal|news)")
    publish(publisher, "", b"news", exchange="news")
    assert held(publisher)
    node.command("user_delete", name=MALLORY)
    node.settle()
    assert not held(publisher) and node.state("good").depth == COUNT + 1


def test_who_may_write_can_grant_it_for_others(node: Node) -> None:
    """Another user grants the power by making the same binding; a user without the right cannot undo that."""
    attack(node, FULL, durable=True)
    publisher = open_channel(node)
    node.bind("news", "mal")
    publish(publisher, "", *[b"news"] * COUNT, exchange="news")
    assert held(publisher)
    node.bind("news", "mal", user=MALLORY)
    node.settle()
    assert held(publisher)


def test_a_binding_from_before_makers_were_noted_grants_it(node: Node) -> None:
    owner = open_channel(node)
    owner.call("queue.declare", 1, queue="mal", durable=True, arguments=FULL)
    node.ask("queue_bind", queue="mal", source="news", user=None)
    publisher = open_channel(node)
    publish(publisher, "", *[b"news"] * COUNT, exchange="news")
    assert held(publisher)


@pytest.mark.parametrize(
    ("definition", "apply_to", "grants"),
    [
        ({"essential": True}, "queues", True),
        ({"essential": True}, "exchanges", True),
        ({"overflow": "flow"}, "queues", True),
        ({"overflow": "flow"}, "exchanges", False),
        ({"max-length": 1}, "queues", False),
        ({"overflow": "reject-publish"}, "queues", False),  # the declaration says otherwise
    ],
)
def test_a_policy_of_the_queue_grants_it(node: Node, definition: dict[str, Any], apply_to: str, grants: bool) -> None:
    attack(node, FULL, durable=True)
    node.policy("trusted", "^(mal|news)$", definition, apply_to)
    publisher = open_channel(node)
    publish(publisher, "", *[b"news"] * COUNT, exchange="news")
    assert held(publisher) is grants


def test_a_policy_of_the_queue_lets_it_refuse(node: Node) -> None:
    attack(node, {}, exclusive=True)
    node.policy("trusted", "^mal$", {"overflow": "reject-publish", "max-length": 10})
    publisher = open_channel(node)
    publisher.call("confirm.select", 1)
    publish(publisher, "", *[b"news"] * COUNT, exchange="news")
    assert "basic.nack" in publisher.names(1)


@pytest.mark.parametrize(("first", "second"), [(MALLORY, "guest"), ("guest", MALLORY), ("guest", "guest")])
def test_on_a_way_over_several_exchanges_each_binding_counts(node: Node, first: str, second: str) -> None:
    attack(node, FULL, exchange="inner", user=second, durable=True)
    node.ask("exchange_bind", destination="inner", source="news", user=first)
    publisher = open_channel(node)
    publish(publisher, "", *[b"news"] * COUNT, exchange="news")
    assert held(publisher) is (first == second == "guest")


@pytest.mark.parametrize(
    ("type", "mine", "hers"),
    [
        ("direct", {"key": "k"}, {"key": "other"}),
        ("topic", {"key": "k.#"}, {"key": "other.#"}),
        ("headers", {"arguments": {"a": 1}}, {"arguments": {"a": 2}}),
    ],
)
def test_of_several_bindings_those_count_that_are_taken(
    node: Node, type: str, mine: dict[str, Any], hers: dict[str, Any]
) -> None:
    node.declare("q", durable=True, **FULL)
    node.ask("exchange_declare", name="x", type=type)
    node.ask("queue_bind", queue="q", source="x", user="guest", **mine)
    node.ask("queue_bind", queue="q", source="x", user=MALLORY, **hers)
    publishers = {}
    for whose, binding in (("hers", hers), ("mine", mine)):
        publisher = publishers[whose] = open_channel(node)
        key = binding.get("key", "").replace(".#", ".a")
        publish(publisher, key, *[b"m"] * 20, exchange="x", headers=binding.get("arguments", {}))
    assert not held(publishers["hers"]) and held(publishers["mine"])


def test_topic_permissions_count(node: Node) -> None:
    permit(node, "^(mal|x)")
    node.command("topic_permission_set", user=MALLORY, vhost="/", exchange="x", write="^hers", read=".*")
    owner = open_channel(node)
    owner.call("queue.declare", 1, queue="mal", durable=True, arguments=FULL)
    node.bind("x", "mal", key="#", type="topic", user=MALLORY)
    others = open_channel(node)
    publish(others, "news", *[b"m"] * 20, exchange="x")
    assert not held(others)
    hers = open_channel(node)
    publish(hers, "hers", *[b"m"] * 20, exchange="x")
    assert held(hers)


def test_what_is_published_to_it_by_name_is_held_all_the_same(node: Node) -> None:
    """Each publisher waits only for queues that may hold it, and keeps its order."""
    owner = attack(node, FULL, durable=True)
    publisher, direct = open_channel(node), open_channel(node)
    publish(publisher, "", *[b"news"] * COUNT, exchange="news")
    publish(direct, "mal", b"direct")
    goes_on(publisher)
    assert held(direct)
    assert drain(owner, "mal") == [*[b"news"] * COUNT, b"direct"]
    assert not held(direct)


def test_what_a_publish_to_it_by_name_is_refused_is_nacked(node: Node) -> None:
    attack(node, KINDS["reject-publish"], durable=True)
    both = open_channel(node)
    both.call("confirm.select", 1)
    for _ in range(2):  # in one turn
        both.publish(1, b"news", "news")
        both.publish(1, b"direct", "", "mal")
    node.settle()
    reported = [(event.name, event.delivery_tag) for event in both.events[1]]
    assert {tag for name, tag in reported if name == "basic.nack"} == {2, 4}
    assert max(tag for name, tag in reported if name == "basic.ack") == 3


def test_a_lane_of_an_unprivileged_queue_shuts_no_other(node: Node) -> None:
    node.declare("q", durable=True, **{"x-flow-stop-count": 20, "x-lane-priority": 5, "x-lane-reserve": 10})
    node.bind("news", "q")
    attack(node, {**FULL, "x-lane-priority": 255}, exclusive=True)
    publisher = open_channel(node)
    publish(publisher, "", *[b"data"] * 40, exchange="news")
    assert held(publisher)
    before = node.state("q").depth
    publish(publisher, "", b"control", exchange="news", priority=9)
    assert node.state("q").depth == before + 1


def test_an_unprivileged_queue_is_not_counted_with_others(node: Node) -> None:
    """Messages that nobody reads from such a queue do not count towards a limit over the queues of an exchange."""
    node.policy("together", "^news$", {"sum-stop-count": 40}, "exchanges")
    owner = attack(node, {}, durable=True)
    publisher = open_channel(node)
    for _ in range(4):
        publish(publisher, "", *[b"news"] * 30, exchange="news")
        assert not held(publisher)
        drain(owner, "good")
    assert node.state("mal").depth == 120
    (shared,) = node.command("flow_explain", vhost="/", name="good")["shared"]
    assert len(shared["slots"]) == 1
    assert not node.command("flow_explain", vhost="/", name="mal")["shared"]


def test_dead_letters_do_not_wait_for_an_unprivileged_queue(node: Node) -> None:
    """Otherwise dead letters would count in the queue they come from, and hold its producers."""
    attack(node, FULL, durable=True)
    node.declare("source", durable=True, **{"x-dead-letter-exchange": "news", "x-flow-stop-count": 30})
    publisher, taker = open_channel(node), open_channel(node)
    for _ in range(COUNT):
        publish(publisher, "source", b"m")
        got = get(taker, "source", no_ack=False)
        assert got is not None
        taker.send("basic.reject", 1, delivery_tag=got.delivery_tag, requeue=False)
        node.settle()
    goes_on(publisher)
    assert node.state("source").depth == 0 and node.state("mal").depth == COUNT


def test_dead_letters_that_wait_go_on_once_the_right_is_lost(node: Node) -> None:
    permit(node, "^(mal|news)")
    attack(node, FULL, durable=True)
    node.declare("source", durable=True, **{"x-dead-letter-exchange": "news", "x-max-length": 0})
    publisher = open_channel(node)
    for _ in range(COUNT):
        publish(publisher, "source", b"m")
    assert node.state("good").depth < COUNT
    permit(node, "^mal")
    node.now += 1
    node.settle()
    goes_on(publisher)


def test_it_spills_and_at_its_limit_its_oldest_go(node: Node) -> None:
    """The spill is reported, and the queue is never shown as within its bound."""
    owner = attack(node, {"x-flow-stop-count": 20}, durable=True)
    owner.call("queue.declare", 1, queue="events", exclusive=True)
    owner.call("queue.bind", 1, queue="events", exchange="amq.flow", routing_key="spills.#")
    publisher = open_channel(node)
    for _ in range(30):
        publish(publisher, "", *[bytes(1000)] * 100, exchange="news")
    state = node.state("mal")
    assert state.depth > 900 and state.depth_bytes <= MIB
    assert not held(publisher) and node.state("good").depth == 3000
    why = "'mallory' may not write to exchange 'news'"
    (line,) = [each for each in node.logs if each["event"] == "unprivileged queue spills"]
    assert (line["queue"], line["why"]) == ("mal", why)
    event = get(owner, "events")
    assert event is not None and event.properties["headers"]["why"] == why
    gauge = node.gauges.queue_read(state.slot)
    assert gauge is not None and gauge.lagging and gauge.over_count <= 2
    recount(node, "mal")
    assert len(drain(owner, "mal")) > 900
    gauge = node.gauges.queue_read(state.slot)
    assert gauge is not None and not gauge.lagging and not gauge.saturated


def test_explained(node: Node) -> None:
    attack(node, FULL, durable=True)
    node.bind("direct", "mal", type="direct", key="a")
    reported = node.command("flow_explain", vhost="/", name="mal")["bindings"]
    assert [(each["exchange"], each["made_by"], each["stops_producers"], each["why"]) for each in reported] == [
        ("news", MALLORY, False, "'mallory' may not write to exchange 'news'"),
        ("direct", "guest", True, ""),
    ]
    node.policy("trusted", "^mal$", {"essential": True})
    reported = node.command("flow_explain", vhost="/", name="mal")["bindings"]
    assert {(each["stops_producers"], each["why"]) for each in reported} == {(True, "a policy of the queue grants it")}


def test_routes_of_channels_are_told_with_what_is_granted_now(node: Node) -> None:
    """Not with those at the time of the publish: a trial of a policy relies on these routes."""

    def reported() -> list[tuple[int, int]]:
        """Return the number of queues and of powerless ones of each route."""
        node.settle()
        (channel,) = [each for each in channels(core.state, core.routes) if each["routes"]]
        return [(len(route["queues"]), len(route["powerless"])) for route in channel["routes"]]

    core = node.core(0)
    attack(node, FULL, durable=True)
    publisher = open_channel(node)
    publish(publisher, "", b"news", exchange="news")
    assert reported() == [(2, 1)]
    permit(node, "^(mal|news)")
    assert reported() == [(2, 0)]
    publish(publisher, "", b"news", exchange="news")
    permit(node, "^mal")
    assert reported() == [(2, 1)]
    node.ask("exchange_delete", name="news")
    node.settle()
    assert not any(each["routes"] for each in channels(core.state, core.routes))


def test_what_is_published_is_counted_with_the_queues_that_can_do_nothing_to_it(node: Node) -> None:
    core = node.core(0)
    attack(node, FULL, durable=True)
    core.routes.count(core.state.now)
    publish(open_channel(node), "", b"news", exchange="news")
    (row,) = core.routes.count(core.state.now)["publishes"]
    assert row["powerless"] == [node.queue("mal").queue_id]
    assert set(row["queues"]) == {node.queue(name).queue_id for name in ("good", "mal")}
