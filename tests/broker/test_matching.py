"""The cost of bindings, with a real broker: limits of patterns, and expensive publishes beside other clients."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from tests.broker import Broker
from tests.frames import publish_frames
from tests.raw import Channel, Client

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

PUBLISHES = 300


def costly_keys() -> list[str]:
    """Return routing keys that each reach many places of the trie, a different set each time."""
    generator = random.Random(7)
    return [".".join(generator.choices("abcd", k=120)) for _ in range(PUBLISHES)]


def bind_topics(channel: Channel) -> list[Any]:
    """Bind a queue by a thousand patterns with many hashes; return publishes that reach all their places."""
    channel.call("exchange.declare", exchange="costly", type="topic")
    channel.call("queue.declare", queue="sink")
    for words in itertools.product("abcd", repeat=5):
        channel.send(
            "queue.bind", queue="sink", exchange="costly", routing_key=f"#.{'.#.'.join(words)}.#.z", nowait=True
        )
    return [publish_frames(channel.number, b"", "costly", key) for key in costly_keys()]


def bind_headers(channel: Channel) -> list[Any]:
    """Bind a queue by patterns of three of 64 pairs; return publishes that have most of the pairs."""
    channel.call("exchange.declare", exchange="costly", type="headers")
    channel.call("queue.declare", queue="sink")
    for three in itertools.islice(itertools.combinations(range(64), 3), 2000):
        channel.send(
            "queue.bind", queue="sink", exchange="costly", routing_key="", nowait=True,
            arguments={**{f"k{number}": 1 for number in three}, "never": 1, "x-match": "all"},
        )  # fmt: skip
    generator = random.Random(7)
    return [
        publish_frames(
            channel.number, b"", "costly", headers={f"k{number}": 1 for number in generator.sample(range(64), 60)}
        )
        for _ in range(PUBLISHES)
    ]


@pytest.mark.parametrize("bind", [bind_topics, bind_headers])
def test_a_neighbour_comes_before_the_end_of_what_costs_much(tmp_path: Path, bind: Any) -> None:
    """A client writes all its publishes at once; a later publish of another is in the queue before the last of them."""
    with Broker(tmp_path) as broker, Client.connect(broker.address) as costly, Client.connect(broker.address) as other:
        attacker, neighbour = costly.channel(), other.channel()
        neighbour.call("queue.declare", queue="order")
        neighbour.call("confirm.select")
        publishes = bind(attacker)
        attacker.call("queue.declare", queue="sink")
        attacker.call("confirm.select")
        costly.socket.sendall(b"".join([*publishes, publish_frames(attacker.number, b"last", "", "order")]))
        neighbour.publish(b"neighbour", routing_key="order")
        assert neighbour.take("basic.ack")
        tag = 0
        while tag < PUBLISHES + 1:
            tag = max(tag, attacker.take("basic.ack").delivery_tag)
        assert [neighbour.get("order").body for _ in range(2)] == [b"neighbour", b"last"]


def bind(broker: Broker, key: str, exchange: str = "amq.topic", arguments: dict[str, Any] | None = None) -> str:
    """Bind a queue by a real client; return the reason if it was refused, otherwise ""."""
    with pika.BlockingConnection(pika.ConnectionParameters(*broker.address)) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        try:
            channel.queue_bind("q", exchange, key, arguments)
        except ChannelClosedByBroker as closed:
            return f"{closed.reply_code} {closed.reply_text}"
        return ""


def test_limits_are_for_what_is_new(tmp_path: Path) -> None:
    """New limits do not affect the bindings of an older data directory."""
    long, longer = ".".join("a" * 32), ".".join("a" * 33)
    with Broker(tmp_path) as broker:
        assert bind(broker, long) == ""
        refusal = bind(broker, longer)
        assert refusal.startswith("406 PRECONDITION_FAILED - binding of queue 'q' ")
        assert refusal.endswith("has a pattern of 33 words, more than 32 (amqp.pattern_words)")
        assert bind(broker, longer, "amq.direct") == ""
        wide = {f"k{number}": 1 for number in range(65)}
        assert bind(broker, "", "amq.headers", wide).endswith(
            "asks for 65 headers, more than 64 (amqp.binding_headers)"
        )
        broker.stop()
        broker.command += ["--set", "amqp.pattern_words=2", "--set", "amqp.bindings_per_queue=3"]
        broker.start()
        with pika.BlockingConnection(pika.ConnectionParameters(*broker.address)) as connection:
            channel = connection.channel()
            channel.basic_publish("amq.topic", long, b"old")
            assert channel.basic_get("q", auto_ack=True)[2] == b"old"
        assert bind(broker, long) == ""
        assert "3 words, more than 2" in bind(broker, "a.b.c")
        assert bind(broker, "a.b") == ""
        assert bind(broker, "a.c").endswith("has 3 bindings, its limit (amqp.bindings_per_queue)")
