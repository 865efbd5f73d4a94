"""Exchanges and their routing (specification: class Exchange and section 3.1.3; exchange-to-exchange bindings)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Names
from tests.outcomes import bodies
from tests.raw import Channel, Client

pytestmark = pytest.mark.broker


@pytest.fixture
def declare(channel: Channel, names: Names) -> Callable[..., str]:
    """A function that declares an exchange of a type and returns its name."""

    def declare_exchange(kind: str, **options: Any) -> str:
        exchange = names("x")
        channel.call("exchange.declare", exchange=exchange, type=kind, **options)
        return exchange

    return declare_exchange


def bound(channel: Channel, exchange: str, *keys: str, **arguments: Any) -> str:
    """Return a new exclusive queue, bound by each key."""
    queue = str(channel.call("queue.declare", exclusive=True).queue)
    for key in keys:
        channel.call("queue.bind", queue=queue, exchange=exchange, routing_key=key, **arguments)
    return queue


@pytest.mark.parametrize("name", ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"])
def test_predeclared(channel: Channel, name: str) -> None:
    kind = {"amq.match": "headers"}.get(name, name[4:])
    channel.call("exchange.declare", exchange=name, passive=True)
    channel.call("exchange.declare", exchange=name, type=kind, durable=True)


def test_direct(channel: Channel, declare: Callable[..., str]) -> None:
    exchange = declare("direct")
    red, both = bound(channel, exchange, "red"), bound(channel, exchange, "red", "blue")
    for key in ("red", "blue", "green", "re", "red.x", ""):
        channel.publish(key.encode(), key, exchange)
    assert bodies(channel, red) == [b"red"]
    assert bodies(channel, both) == [b"red", b"blue"]


def test_fanout_ignores_keys(channel: Channel, declare: Callable[..., str]) -> None:
    exchange = declare("fanout")
    queues = [bound(channel, exchange, "a"), bound(channel, exchange, "b", "c"), bound(channel, exchange, "")]
    channel.publish(b"x", "whatever", exchange)
    assert [bodies(channel, queue) for queue in queues] == [[b"x"]] * 3


TOPIC_KEYS = (
    *("lazy", "orange", "rabbit", "lazyx", "", "lazy.orange", "orange.x", "rabbit.x", "lazy.c", "a.rabbit"),
    *("quick.orange.rabbit", "lazy.orange.elephant", "lazy.pink.rabbit", ".orange.", "lazy.a.b.c", "a.b.c.d"),
)
TOPIC_PATTERNS: dict[str, Callable[[list[str]], bool]] = {
    "lazy": lambda words: words == ["lazy"],
    "*": lambda words: len(words) == 1,
    "#": lambda words: True,
    "#.#": lambda words: True,
    "#.*": lambda words: len(words) >= 1,
    "*.orange.*": lambda words: len(words) == 3 and words[1] == "orange",
    "*.*.rabbit": lambda words: len(words) == 3 and words[2] == "rabbit",
    "lazy.#": lambda words: words[:1] == ["lazy"],
    "#.rabbit": lambda words: words[-1:] == ["rabbit"],
    "lazy.#.c": lambda words: len(words) > 1 and (words[0], words[-1]) == ("lazy", "c"),
    "lazy.*.#": lambda words: len(words) > 1 and words[0] == "lazy",
}


def words_of(key: str) -> list[str]:
    """Return the words of a key: none in an empty key; empty words between dots count."""
    return key.split(".") if key else []


def test_topic(channel: Channel, declare: Callable[..., str]) -> None:
    """`*` matches one word, `#` none or more."""
    exchange = declare("topic")
    queues = {pattern: bound(channel, exchange, pattern) for pattern in TOPIC_PATTERNS}
    for key in TOPIC_KEYS:
        channel.publish(key.encode(), key, exchange)
    for pattern, matches in TOPIC_PATTERNS.items():
        expected = [key.encode() for key in TOPIC_KEYS if matches(words_of(key))]
        assert bodies(channel, queues[pattern]) == expected, pattern


def test_one_message_a_queue_however_many_bindings_match(channel: Channel, declare: Callable[..., str]) -> None:
    exchange = declare("topic")
    queue = bound(channel, exchange, "#", "a.*", "a.b", "*.b")
    channel.publish(b"x", "a.b", exchange)
    assert bodies(channel, queue) == [b"x"]


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "x", "c": True}, True),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1}, False),
        ({"a": 1, "b": "x"}, {"a": 1, "b": "y"}, False),
        ({"a": 1, "b": "x"}, {"a": 1, "b": "x"}, True),
        ({"x-match": "any", "a": 1, "b": "x"}, {"b": "x"}, True),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2, "c": 1}, False),
        ({"x-match": "all", "a": None}, {"a": "anything"}, True),
        ({"x-match": "all", "a": None}, {}, False),
        ({"x-match": "all", "x-ignored": 1, "a": 1}, {"a": 1}, True),
        ({"x-match": "all-with-x", "x-counted": 1, "a": 1}, {"a": 1}, False),
        ({"x-match": "any-with-x", "x-counted": 1, "a": 1}, {"x-counted": 1}, True),
        ({"x-match": "all"}, {}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"a": True}, {"a": True}, True),
        ({"a": True}, {"a": False}, False),
    ],
)
def test_headers(
    channel: Channel, declare: Callable[..., str], arguments: dict[str, Any], headers: dict[str, Any], matches: bool
) -> None:
    exchange = declare("headers")
    queue = bound(channel, exchange, "", arguments=arguments)
    channel.publish(b"x", "", exchange, headers=headers)
    assert bodies(channel, queue) == ([b"x"] if matches else [])


def test_headers_exchange_without_headers(channel: Channel, declare: Callable[..., str]) -> None:
    exchange = declare("headers")
    queue = bound(channel, exchange, "", arguments={"x-match": "any", "a": 1})
    channel.publish(b"x", "", exchange)
    assert bodies(channel, queue) == []


def test_default_exchange_routes_by_queue_name(channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.publish(b"x", queue)
    got = channel.get(queue)
    assert got and (got.exchange, got.routing_key) == ("", queue)


def test_exchange_to_exchange(channel: Channel, declare: Callable[..., str]) -> None:
    """Bindings between exchanges route on, once per exchange, even in a cycle."""
    topic, fanout, direct = declare("topic"), declare("fanout"), declare("direct")
    channel.call("exchange.bind", destination=fanout, source=topic, routing_key="a.#")
    channel.call("exchange.bind", destination=direct, source=fanout)
    channel.call("exchange.bind", destination=topic, source=direct, routing_key="a.b")
    all_of_it, only_b = bound(channel, fanout, ""), bound(channel, direct, "a.b")
    channel.publish(b"1", "a.b", topic)
    channel.publish(b"2", "a.c", topic)
    channel.publish(b"3", "x", topic)
    assert bodies(channel, all_of_it) == [b"1", b"2"]
    assert bodies(channel, only_b) == [b"1"]
    channel.call("exchange.unbind", destination=fanout, source=topic, routing_key="a.#")
    channel.publish(b"4", "a.b", topic)
    assert bodies(channel, all_of_it) == []


def test_internal_exchange(channel: Channel, declare: Callable[..., str]) -> None:
    inner, outer = declare("fanout", internal=True), declare("fanout")
    channel.call("exchange.bind", destination=inner, source=outer)
    queue = bound(channel, inner, "")
    channel.publish(b"by way of another", "", outer)
    assert bodies(channel, queue) == [b"by way of another"]
    channel.publish(b"x", "", inner)
    refused = channel.closed()
    assert (refused.code, refused.text) == (
        403,
        f"ACCESS_REFUSED - cannot publish to internal exchange '{inner}' in vhost '/'",
    )
    assert (refused.event.class_id, refused.event.method_id) == (60, 40)


def test_alternate_exchange_takes_what_nothing_routes(channel: Channel, declare: Callable[..., str]) -> None:
    alternate = declare("fanout")
    exchange = declare("direct", arguments={"alternate-exchange": alternate})
    known, unknown = bound(channel, exchange, "known"), bound(channel, alternate, "")
    channel.publish(b"1", "known", exchange, mandatory=True)
    channel.publish(b"2", "unknown", exchange, mandatory=True)
    assert bodies(channel, known) == [b"1"]
    assert bodies(channel, unknown) == [b"2"]
    assert not channel.pending()


def test_auto_delete_goes_with_its_last_binding(channel: Channel, declare: Callable[..., str]) -> None:
    exchange = declare("direct", auto_delete=True)
    queue = bound(channel, exchange, "a", "b")
    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key="a")
    channel.call("exchange.declare", exchange=exchange, passive=True)
    channel.call("queue.delete", queue=queue)
    channel.send("exchange.declare", exchange=exchange, passive=True)
    refused = channel.closed()
    assert (refused.code, refused.text) == (404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'")


def test_delete(channel: Channel, declare: Callable[..., str]) -> None:
    exchange = declare("direct")
    queue = bound(channel, exchange, "k")
    busy = channel.client.channel()
    busy.send("exchange.delete", exchange=exchange, if_unused=True)
    refused = busy.closed()
    assert (refused.code, refused.text) == (406, f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use")
    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key="k")
    channel.call("exchange.delete", exchange=exchange, if_unused=True)
    channel.call("exchange.delete", exchange=exchange)
    channel.call("exchange.delete", exchange="never-there")


def test_redeclared_exchange_has_no_old_bindings(channel: Channel, declare: Callable[..., str]) -> None:
    exchange = declare("fanout")
    queue = bound(channel, exchange, "")
    channel.publish(b"1", "", exchange)
    channel.call("exchange.delete", exchange=exchange)
    channel.call("exchange.declare", exchange=exchange, type="direct")
    channel.publish(b"2", "", exchange)
    assert bodies(channel, queue) == [b"1"]


def test_route_follows_every_change_at_once(connect: Callable[[], Client], declare: Callable[..., str]) -> None:
    """A publisher's route is never older than a change confirmed to a declarer on another connection."""
    exchange = declare("direct")
    declarer, publisher = connect().channel(), connect().channel()
    queue = bound(declarer, exchange)
    for number in range(30):
        change = "queue.bind" if number % 2 == 0 else "queue.unbind"
        declarer.call(change, queue=queue, exchange=exchange, routing_key="k")
        publisher.publish(b"%d" % number, "k", exchange, mandatory=True)
        publisher.call("queue.declare", exclusive=True)
        returned = [event.name for event in publisher.pending()]
        assert returned == ([] if change == "queue.bind" else ["basic.return"])
        if returned:
            publisher.take("basic.return")
    assert bodies(declarer, queue) == [b"%d" % number for number in range(0, 30, 2)]
