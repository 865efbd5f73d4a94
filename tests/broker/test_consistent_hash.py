"""Consistent hash exchanges on a real node: one queue a key, whatever the connection, also after a restart; weights and
arguments as in RabbitMQ's plugin; a full queue holds the producers of its own keys alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.broker import Broker
from tests.broker.flow import MARKS, STOP, settled_depth
from tests.conftest import Names
from tests.outcomes import Confirms, bodies, wait_depth
from tests.raw import Channel, Client

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

KIND = "x-consistent-hash"
KEYS = [f"user-{number}" for number in range(60)]


def declare(channel: Channel, names: Names, **arguments: Any) -> str:
    exchange = names("x")
    channel.call("exchange.declare", exchange=exchange, type=KIND, arguments=arguments)
    return exchange


def bound(channel: Channel, names: Names, exchange: str, *weights: str, **arguments: Any) -> list[str]:
    """Return a new queue for each weight, bound by it."""
    queues = []
    for weight in weights:
        queues.append(names("q"))
        channel.call("queue.declare", queue=queues[-1], arguments=arguments)
        channel.call("queue.bind", queue=queues[-1], exchange=exchange, routing_key=weight)
    return queues


def where(channel: Channel, exchange: str, queues: Iterable[str], keys: list[str] = KEYS) -> dict[str, str]:
    """Publish once with each key; return the queue that each message was in. None is in two queues."""
    for key in keys:
        channel.publish(key.encode(), key, exchange)
    return found_in(channel, queues)


def found_in(channel: Channel, queues: Iterable[str]) -> dict[str, str]:
    found = {}
    for queue in queues:
        for body in bodies(channel, queue):
            assert body.decode() not in found
            found[body.decode()] = queue
    return found


def test_each_key_has_one_queue_on_every_connection(
    connect: Callable[[], Client], channel: Channel, names: Names
) -> None:
    exchange = declare(channel, names)
    queues = bound(channel, names, exchange, "1", "1", "2")
    found = where(channel, exchange, queues)
    assert set(found) == set(KEYS) and set(found.values()) == set(queues)
    for _ in range(4):
        assert where(connect().channel(), exchange, queues) == found


def test_only_the_keys_of_a_queue_that_goes_move_and_they_come_back_with_it(channel: Channel, names: Names) -> None:
    exchange = declare(channel, names)
    queues = bound(channel, names, exchange, "3", "3", "3")
    before = where(channel, exchange, queues)
    gone = queues[0]
    channel.call("queue.unbind", queue=gone, exchange=exchange, routing_key="3")
    after = where(channel, exchange, queues)
    assert gone not in after.values() and set(after) == set(KEYS)
    assert all(after[key] == queue for key, queue in before.items() if queue != gone)
    channel.call("queue.delete", queue=queues[1])
    assert set(where(channel, exchange, queues[2:]).values()) == {queues[2]}
    for queue in (queues[1], gone):
        channel.call("queue.declare", queue=queue)
        channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="3")
    assert where(channel, exchange, queues) == before


def test_keys_keep_their_queues_over_restarts(tmp_path: Path) -> None:
    queues = [f"q{number}" for number in range(5)]
    with Broker(tmp_path, acceptors=2, shards=2) as broker:
        with Client.connect(broker.address) as client:
            channel = client.channel()
            channel.call("exchange.declare", exchange="x", type=KIND, durable=True, arguments={"hash-header": "h"})
            for weight, queue in enumerate(queues, 1):
                channel.call("queue.declare", queue=queue, durable=True)
                channel.call("queue.bind", queue=queue, exchange="x", routing_key=str(weight))
            channel.call("queue.unbind", queue="q0", exchange="x", routing_key="1")
            channel.call("queue.bind", queue="q0", exchange="x", routing_key="1")
            before = by_header(channel, queues)
            assert len(before) == len(KEYS) and set(before.values()) == set(queues)
        broker.kill("acceptor", 0)
        for _ in range(2):
            with Client.connect(broker.address) as client:
                assert by_header(client.channel(), queues) == before
        broker.stop()
        broker.start()
        with Client.connect(broker.address) as client:
            assert by_header(client.channel(), queues) == before


def by_header(channel: Channel, queues: list[str]) -> dict[str, str]:
    for key in KEYS:
        channel.publish(key.encode(), "", "x", headers={"h": key})
    return found_in(channel, queues)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("a", 'The binding key must be an integer: <<"a">>'),
        ("", "The binding key must be an integer: <<>>"),
        ("0", "The binding key must be greater than 0"),
    ],
)
def test_a_binding_needs_a_weight(channel: Channel, names: Names, key: str, text: str) -> None:
    exchange = declare(channel, names)
    queue = str(channel.call("queue.declare", exclusive=True).queue)
    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key=key)
    channel.send("queue.bind", queue=queue, exchange=exchange, routing_key=key)
    closed = channel.closed()
    assert (closed.code, closed.text) == (406, f"PRECONDITION_FAILED - {text}")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-header": "a", "hash-property": "message_id"}, "hash-header and hash-property are mutually exclusive"),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-header": 7}, "hash-header must be a string, not 7"),
    ],
)
def test_invalid_arguments(channel: Channel, names: Names, arguments: dict[str, Any], text: str) -> None:
    channel.send("exchange.declare", exchange=names("x"), type=KIND, arguments=arguments)
    closed = channel.closed()
    assert (closed.code, closed.text) == (406, f"PRECONDITION_FAILED - {text}")


def test_a_second_declaration_is_compared_as_in_rabbitmq(channel: Channel, names: Names) -> None:
    """Its type is, and its alternate exchange; what it hashes is not, and stays."""
    exchange = declare(channel, names, **{"hash-property": "message_id"})
    channel.call("exchange.declare", exchange=exchange, type=KIND, arguments={"hash-property": "message_id"})
    channel.call("exchange.declare", exchange=exchange, type=KIND, arguments={"hash-header": "h"})
    queues = bound(channel, names, exchange, "1", "1", "1", "1")
    for number in range(40):
        channel.publish(b"%d" % number, str(number), exchange, message_id="same")
    assert len(set(found_in(channel, queues).values())) == 1
    channel.send("exchange.declare", exchange=exchange, type="direct")
    assert channel.closed().code == 406


@pytest.mark.parametrize("name", ["correlation_id", "message_id"])
def test_a_property_decides(channel: Channel, names: Names, name: str) -> None:
    by_key, by_property = declare(channel, names), declare(channel, names, **{"hash-property": name})
    queues = bound(channel, names, by_key, "1", "2", "3")
    for queue, weight in zip(queues, "123", strict=True):
        channel.call("queue.bind", queue=queue, exchange=by_property, routing_key=weight)
    for key in KEYS:
        channel.publish(key.encode(), "k", by_property, **{name: key})
    assert found_in(channel, queues) == where(channel, by_key, queues), "equal texts, equal bindings"


def test_one_destination_in_spite_of_further_keys_cycles_and_dead_letters(channel: Channel, names: Names) -> None:
    exchange = declare(channel, names)
    first = declare(channel, names)
    channel.call("exchange.bind", destination=exchange, source=first, routing_key="1")
    queues = bound(channel, names, exchange, "1", "1", "1")
    plain = where(channel, exchange, queues)
    for key in KEYS:
        channel.publish(key.encode(), key, first, headers={"CC": ["another", "third"]})
    assert found_in(channel, queues) == plain
    dying = names("dying")
    channel.call("queue.declare", queue=dying, arguments={"x-message-ttl": 0, "x-dead-letter-exchange": exchange})
    channel.call("queue.bind", queue=dying, exchange="amq.direct", routing_key=dying)
    for key in KEYS:
        channel.publish(key.encode(), key, "", headers={"CC": [dying]})
    for queue in queues:
        wait_depth(channel, queue, sum(each == queue for each in plain.values()))
    assert found_in(channel, queues) == plain


def test_without_bindings_a_message_goes_to_the_alternate_exchange_or_comes_back(
    channel: Channel, names: Names
) -> None:
    queue = str(channel.call("queue.declare", exclusive=True).queue)
    channel.call("queue.bind", queue=queue, exchange="amq.fanout")
    channel.publish(b"1", "k", declare(channel, names, **{"alternate-exchange": "amq.fanout"}), mandatory=True)
    assert bodies(channel, queue) == [b"1"]
    channel.publish(b"2", "k", declare(channel, names), mandatory=True)
    assert channel.take("basic.return").body == b"2"


@pytest.mark.parametrize("argument", [None, "message_id"])
def test_a_full_queue_holds_only_producers_of_its_keys(
    connect: Callable[[], Client], channel: Channel, names: Names, argument: str | None
) -> None:
    exchange = declare(channel, names, **({"hash-property": argument} if argument else {}))
    full, free = bound(channel, names, exchange, "1", "1", **MARKS)

    def publish(publisher: Channel, key: str) -> None:
        publisher.publish(key.encode(), "" if argument else key, exchange, **({argument: key} if argument else {}))

    for key in KEYS:
        publish(channel, key)
    found = found_in(channel, [full, free])
    to_full, to_free = (next(key for key in KEYS if found[key] == queue) for queue in (full, free))
    held, passing = connect().channel(), connect().channel()
    for _ in range(2 * STOP):
        publish(held, to_full)
    held.client.take("connection.blocked")
    assert settled_depth(channel, full) < 2 * STOP
    confirms = Confirms(passing)
    for _ in range(STOP // 2):
        publish(passing, to_free)
        confirms.published += 1
    confirms.wait()
    assert len(confirms.acked) == STOP // 2 == channel.depth(free)
    purged = int(channel.call("queue.purge", queue=full).messages)
    held.client.take("connection.unblocked")
    wait_depth(channel, full, 2 * STOP - purged)
