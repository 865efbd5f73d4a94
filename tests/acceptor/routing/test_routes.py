"""The cache of routes: publishes that share a route, publishes without one, and routes that are forgotten."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.routing.route import Route
from acceptor.routing.routes import CACHED_KEYS, CACHED_TRAITS, EXAMINED_MAX, Routes, names, traits_of
from penstock.amqp.errors import AMQPError
from router.model.hashing import CONSISTENT_HASH
from router.model.matching import HeadersIndex
from router.model.records import Binding
from router.model.topics_cy import Work
from tests.router.making import rabbit_hash
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("q")
        node.bind("x", "q", type="topic", key="a.#")
        node.settle()
        yield node


@pytest.fixture
def routes(node: Node) -> Routes:
    return node.core(0).routes


def address(exchange: str, key: str = "") -> bytes:
    return Route(exchange, key, (), (), ()).address()


def find(client: Client, exchange: str, key: str = "", further: tuple[str, ...] = ()) -> Route:
    channel = client.connection.channels[1]
    return client.node.core(client.acceptor).routes.find(channel, address(exchange, key), further)


def test_publishes_of_a_user_to_the_same_address_share_a_route_until_the_topology_changes(
    node: Node, client: Client
) -> None:
    found = find(client, "x", "a.b")
    assert find(open_channel(node), "x", "a.b") is found
    assert find(client, "x", "a.c") is not found
    assert find(client, "x", "a.b", ("z",)) is not found
    node.declare("other")
    node.settle()
    assert find(client, "x", "a.b") is not found


def test_users_do_not_share_routes(node: Node, client: Client) -> None:
    node.add_user("bob", write="^x$")
    node.add_user("eve", write="^z$")
    node.settle()
    found = find(client, "x", "a")
    assert find(open_channel(node, user="bob"), "x", "a") is not found
    with pytest.raises(AMQPError, match="write access to exchange 'x'"):
        find(open_channel(node, user="eve"), "x", "a")


@pytest.mark.parametrize(
    ("exchange", "code", "reason"),
    [
        ("none", 404, "no exchange 'none' in vhost '/'"),
        ("inner", 403, "cannot publish to internal exchange 'inner' in vhost '/'"),
    ],
)
def test_a_publish_to_no_exchange_or_an_internal_one_is_refused(
    node: Node, client: Client, exchange: str, code: int, reason: str
) -> None:
    node.ask("exchange_declare", name="inner", internal=True)
    node.settle()
    with pytest.raises(AMQPError) as refused:
        find(client, exchange)
    assert refused.value.code == code and refused.value.text.endswith(reason)


def test_topic_permissions_count_for_each_of_the_keys(node: Node) -> None:
    node.command("user_add", name="bob", password_hash=rabbit_hash("guest"), tags=[])
    node.permit("bob", ".*")
    node.command("topic_permission_set", user="bob", vhost="/", exchange="x", write="^a", read=".*")
    node.settle()
    client = open_channel(node, user="bob")
    assert find(client, "x", "a.b", ("a.c",)).further == ("a.c",)
    with pytest.raises(AMQPError):
        find(client, "x", "a.b", ("b.c",))


def test_routes_with_very_long_further_keys_are_not_kept(routes: Routes, client: Client) -> None:
    routes.clear()
    find(client, "x", "a", ("k" * CACHED_KEYS,))
    assert len(routes.cache) == 1
    found = find(client, "x", "a", ("k" * CACHED_KEYS, "k"))
    assert len(routes.cache) == 1
    assert find(client, "x", "a", ("k" * CACHED_KEYS, "k")) is not found


def test_a_route_begun_before_a_change_is_not_kept(routes: Routes, client: Client) -> None:
    access, epoch = client.connection.channels[1].access, routes.epoch
    route = find(client, "x", "a")
    routes.clear()
    routes.keep(access, address("x", "a"), route, epoch)
    assert not routes.cache
    routes.keep(access, address("x", "a"), route, routes.epoch)
    assert routes.cache


def test_a_publish_that_no_binding_matches_has_a_route_to_nothing(client: Client) -> None:
    found = find(client, "x", "b")
    assert (found.targets, found.gates, found.exchanges) == ((), (), ("x",))


@pytest.mark.parametrize(("data", "found"), [(b"\0\0", ("", "")), (b"\1x\3a.b", ("x", "a.b"))])
def test_an_address_is_split_into_its_names(data: bytes, found: tuple[str, str]) -> None:
    assert names(data) == found


@pytest.mark.parametrize("data", [b"\1\xff\0", b"\0\1\xff"])
def test_names_that_are_not_utf_8_are_refused(data: bytes) -> None:
    with pytest.raises(AMQPError) as refused:
        names(data)
    assert refused.value.code == 501


def hashing(node: Node, **arguments: str) -> None:
    """Declare a consistent hash exchange with eight queues."""
    node.ask("exchange_declare", name="hash", type=CONSISTENT_HASH, arguments=arguments)
    for number in range(8):
        node.declare(f"h{number}")
        node.ask("queue_bind", queue=f"h{number}", source="hash", key="1")
    node.settle()


def test_a_routing_key_is_hashed_once(node: Node, routes: Routes, client: Client) -> None:
    hashing(node)
    for _ in range(50):
        for number in range(20):
            client.publish(1, b"x", "hash", f"k{number}")
        node.settle()
    assert len(routes.cache) == 20 and not routes.properties_cache
    assert {len(target.queues) for route in routes.cache.values() for target in route.targets} == {1}


def test_further_keys_do_not_lead_to_further_destinations(node: Node, client: Client) -> None:
    hashing(node)
    found = find(client, "hash", "k", tuple(f"k{number}" for number in range(50)))
    assert [target.queues for target in found.targets] == [t.queues for t in find(client, "hash", "k").targets]


@pytest.mark.parametrize("arguments", [{"hash_property": "message_id"}, {"hash_header": "h"}])
def test_messages_share_routes_by_destination_whatever_the_values_hashed(
    node: Node, routes: Routes, client: Client, arguments: dict[str, str]
) -> None:
    hashing(node, **{name.replace("_", "-"): value for name, value in arguments.items()})
    for number in range(300):
        client.publish(1, b"x", "hash", message_id=str(number), headers={"h": number, "other": number})
    node.settle()
    assert len(routes.properties_cache) == 8
    depths = [node.state(f"h{number}").contents.ready for number in range(8)]
    assert sum(depths) == 300 and min(depths) > 10


def headers_index(*arguments: dict[str, object]) -> HeadersIndex:
    index = HeadersIndex()
    for number, each in enumerate(arguments):
        index.add(Binding("/", "h", "queue", f"q{number}", "", each))
    return index


def traits(index: HeadersIndex, headers: dict[str, object], work: Work) -> object:
    return traits_of([index], {"headers": headers}, work)


def test_headers_that_no_binding_asks_for_do_not_count() -> None:
    index, work = headers_index({"a": 1}, {"b": 2}), Work(1000)
    found = traits(index, {"a": 1, "id": 5}, work)
    assert found == traits(index, {"a": 1, "id": 6}, work)
    assert found != traits(index, {"a": 1, "b": 2, "id": 5}, work)
    assert work.left == 1000 - 2 - 2 - 3


def test_too_many_headers_are_not_worth_looking_at() -> None:
    index = headers_index({f"k{number}": 1 for number in range(EXAMINED_MAX)})
    few: dict[str, object] = {f"k{number}": 1 for number in range(CACHED_TRAITS)}
    assert traits(index, few, Work(0)) is not None
    assert traits(index, {**few, "k100": 1}, Work(0)) is None
    work = Work(5)
    assert traits(index, dict.fromkeys(map(str, range(EXAMINED_MAX + 1)), 1), work) is None
    assert work.left == 5
