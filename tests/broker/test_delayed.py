"""Delayed message exchanges on a real node: never early, never lost, each once, over deaths and restarts; a full delay
queue holds the producers of its exchange; the command line.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from router.model.delaying import delay_queue_of
from router.model.records import DELAYED_MESSAGE, DELAYED_TYPE
from tests.broker import Broker
from tests.broker.flow import settled_depth
from tests.conftest import Names
from tests.outcomes import Confirms, bodies, wait_depth
from tests.raw import Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

QUEUES = [f"q{number}" for number in range(4)]
PERSISTENT = 2
HOUR = 3_600_000


def declare(channel: Channel, exchange: str, queues: list[str], kind: str = "direct", **arguments: Any) -> None:
    """Declare a delayed exchange, and queues bound to it by their names."""
    arguments = {DELAYED_TYPE: kind, **{each.replace("_", "-"): value for each, value in arguments.items()}}
    channel.call("exchange.declare", exchange=exchange, type=DELAYED_MESSAGE, durable=True, arguments=arguments)
    for queue in queues:
        channel.call("queue.declare", queue=queue, durable=True)
        channel.call("queue.bind", queue=queue, exchange=exchange, routing_key=queue)


def delayed(confirms: Confirms, body: bytes, queue: str, exchange: str, delay: int) -> None:
    confirms.publish(body, queue, exchange, headers={"x-delay": delay}, delivery_mode=PERSISTENT)


def test_nothing_comes_early_and_all_in_the_order_of_their_times(channel: Channel, names: Names) -> None:
    exchange, queue = names("x"), names("q")
    declare(channel, exchange, [queue])
    channel.call("basic.consume", queue=queue, no_ack=True)
    delays = [(number * 37) % 400 for number in range(200)]
    for delay in delays:
        due = time.time() + delay / 1000
        channel.publish(repr(due).encode(), queue, exchange, headers={"x-delay": delay})
    for _ in delays:
        event = channel.take("basic.deliver")
        assert float(event.body) <= time.time()
        assert event.properties["headers"]["x-delay"] <= 0 and event.exchange == exchange
    assert channel.depth(delay_queue_of(exchange)) == 0


def test_deaths_and_restarts_lose_nothing_and_repeat_only_what_was_due(tmp_path: Path) -> None:
    with Broker(tmp_path, acceptors=2, shards=2) as broker:
        with Client.connect(broker.address) as client:
            channel = client.channel()
            declare(channel, "x", QUEUES)
            confirms = Confirms(channel)
            for number in range(200):
                delayed(confirms, b"%d" % number, QUEUES[number % 4], "x", 1500 if number % 2 else HOUR)
            confirms.wait()
        for index in range(2):
            broker.wait_replaced("shard", broker.kill("shard", index))
        broker.kill_all()
        broker.start()
        broker.stop()
        broker.start()
        with Client.connect(broker.address) as client:
            channel = client.channel()
            wait_depth(channel, delay_queue_of("x"), 100)
            for queue in QUEUES:
                wait_depth(channel, queue, 50 if queue in QUEUES[1::2] else 0)
            found = [int(body) for queue in QUEUES for body in bodies(channel, queue)]
            assert sorted(found) == list(range(1, 200, 2))


def test_messages_that_are_due_while_shards_die_come_at_least_once(tmp_path: Path) -> None:
    with Broker(tmp_path, acceptors=2, shards=2) as broker, Client.connect(broker.address) as client:
        channel, watcher = client.channel(), client.channel()
        declare(channel, "x", QUEUES)
        confirms = Confirms(channel)
        for number in range(400):
            delayed(confirms, b"%d" % number, QUEUES[number % 4], "x", 1 + number * 5)
        confirms.wait()
        for index in (0, 1, 0, 1):
            broker.wait_replaced("shard", broker.kill("shard", index))
        wait_depth(watcher, delay_queue_of("x"), 0)
        found: set[int] = set()

        def all_there() -> bool:
            found.update(int(body) for queue in QUEUES for body in bodies(watcher, queue))
            return len(found) == 400

        wait_for(all_there)


def test_a_full_delay_queue_holds_the_producers_of_its_exchange(
    connect: Callable[[], Client], channel: Channel, names: Names
) -> None:
    exchange, queue = names("x"), names("q")
    declare(channel, exchange, [queue], x_flow_stop_count=200, x_flow_resume_count=100)
    held, passing = connect().channel(), connect().channel()
    for _ in range(400):
        held.publish(b"later", queue, exchange, headers={"x-delay": HOUR})
    held.client.take("connection.blocked")
    assert settled_depth(channel, delay_queue_of(exchange)) < 300
    confirms = Confirms(passing)
    for _ in range(100):
        confirms.publish(b"now", queue, exchange, headers={"x-delay": 0})
    confirms.wait()
    assert len(confirms.acked) == 100
    channel.call("queue.purge", queue=delay_queue_of(exchange))
    held.client.take("connection.unblocked")


def test_an_operator_sees_why_a_producer_waits(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        declare(channel, "x", ["q"], x_flow_stop_count=5)
        for _ in range(20):
            channel.publish(b"later", "q", "x", headers={"x-delay": HOUR})
        client.take("connection.blocked")
        (held,) = broker.held()
        shown = broker.penstock("flow", "why", held["connection"]).stdout
        assert f"waits for queue '{delay_queue_of('x')}'" in shown and "its messages wait until they are due" in shown


def test_the_command_line_shows_what_waits_and_can_purge_it(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        declare(channel, "x", ["q"])
        confirms = Confirms(channel)
        delayed(confirms, b"one", "q", "x", HOUR)
        confirms.wait()
        waiting = delay_queue_of("x")

        def shown() -> bool:
            rows = json.loads(broker.penstock("queue", "list", "--json").stdout)
            return any(row["name"] == waiting and row["ready"] == 1 for row in rows)

        wait_for(shown)
        assert "one" in broker.penstock("queue", "get", waiting).stdout
        refused = broker.penstock("queue", "delete", waiting, "--yes")
        assert refused.returncode and "is the delay queue of exchange 'x'" in refused.stderr
        assert not broker.penstock("queue", "purge", waiting).returncode
        wait_depth(channel, waiting, 0)
