"""Traced publishes: the spans of a message on its whole way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.raw import JAVA
from tests.shard.steps import drain, get, pass_ms, publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
MARKS = {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(2, 2, traces={"ratio": 1}) as node:
        node.declare("q")
        yield node


def spans(node: Node) -> list[dict[str, Any]]:
    """Return the spans of all processes, the first to begin first."""
    each = (
        spans for index in (0, 1) for spans in (node.core(index).state.tracing.spans, node.shard(index).traces.spans)
    )
    return sorted((span for kept in each for span in kept.report(0)["spans"]), key=lambda span: span["begin"])


def named(node: Node, name: str) -> list[dict[str, Any]]:
    return [span for span in spans(node) if span["name"] == name]


def only(node: Node, name: str) -> dict[str, Any]:
    (span,) = named(node, name)
    return span


def milliseconds(span: dict[str, Any]) -> float:
    return float((span["end"] - span["begin"]) / 1000)


def test_the_whole_way_of_a_message(node: Node) -> None:
    producer, consumer = open_channel(node, 0), open_channel(node, 1)
    producer.call("confirm.select", 1)
    publish(producer, "q", b"m")
    pass_ms(node, 500)
    consumer.call("basic.consume", 1, queue="q", consumer_tag="c")
    node.settle()
    pass_ms(node, 200)
    tag = consumer.take("basic.deliver", 1).delivery_tag
    consumer.send("basic.ack", 1, delivery_tag=tag)
    node.settle(1)
    published, confirmed, queued = only(node, "publish"), only(node, "confirm"), only(node, "queue")
    delivered, processed = only(node, "deliver"), only(node, "process")
    assert {span["trace"] for span in spans(node)} == {published["trace"]}
    assert published["parent"] is None
    assert queued["parent"] == confirmed["parent"] == published["span"]
    assert delivered["parent"] == processed["parent"] == queued["span"]
    assert [span["process"] for span in (published, confirmed, queued, delivered, processed)] == [
        "acceptor.0", "acceptor.0", "shard.0", "acceptor.1", "shard.0",
    ]  # fmt: skip
    assert (milliseconds(queued), milliseconds(processed)) == (500, pytest.approx(200, abs=60))
    assert published["attributes"] == {
        **producer.connection.channels[1].whose(), "exchange": "", "routing_key": "q", "held": False,
    }  # fmt: skip
    assert queued["attributes"] == {"vhost": "/", "queue": "q", "outcome": "delivered"}
    assert (confirmed["attributes"], processed["attributes"]) == ({"outcome": "ack"}, {"outcome": "settled"})
    assert (delivered["attributes"]["consumer_tag"], delivered["attributes"]["user"]) == ("c", "guest")


def test_the_trace_of_the_producer_goes_on(node: Node) -> None:
    client = open_channel(node)
    publish(client, "q", b"m", headers={"traceparent": f"00-{TRACE}-{SPAN}-01"})
    publish(client, "q", b"m", headers={"traceparent": f"00-{TRACE}-{SPAN}-00"})
    first, second = named(node, "publish")
    assert (first["trace"], first["parent"]) == (TRACE, SPAN)
    assert second["trace"] != TRACE and second["parent"] is None


def test_messages_arrive_in_order_and_whole_however_many_are_traced(node: Node) -> None:
    client = open_channel(node)
    bodies = [b"%d" % number for number in range(40)]
    publish(client, "q", *bodies)
    publish(client, "q", b"large" * 10_000)
    assert drain(client, "q") == [*bodies, b"large" * 10_000]
    assert len(named(node, "publish")) == 41
    assert {span["attributes"]["outcome"] for span in named(node, "queue")} == {"left"}


def test_a_held_publish_begins_when_it_was_parked(node: Node) -> None:
    node.declare("full", **MARKS)
    client = open_channel(node, properties=JAVA)
    publish(client, "full", *[b"m"] * 3)
    publish(client, "full", b"late")
    assert len(named(node, "publish")) == 3
    pass_ms(node, 700)
    other = open_channel(node, 1)
    assert len(drain(other, "full")) >= 3
    late = named(node, "publish")[-1]
    assert late["attributes"]["held"] and milliseconds(late) == pytest.approx(700, abs=60)


def test_what_several_queues_get_has_a_span_in_each(node: Node) -> None:
    node.declare("r", shard=1)
    node.bind("f", "q", "r")
    client = open_channel(node)
    publish(client, "any", b"m", exchange="f")
    for queue in "qr":
        assert get(client, queue) is not None
    node.settle()
    published = only(node, "publish")
    assert published["attributes"]["exchange"] == "f"
    assert {(span["attributes"]["queue"], span["parent"]) for span in named(node, "queue")} == {
        ("q", published["span"]), ("r", published["span"]),
    }  # fmt: skip


def test_a_refused_publish_is_nacked(node: Node) -> None:
    node.declare("short", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "short", b"1", b"2")
    node.settle()
    assert [span["attributes"]["outcome"] for span in named(node, "confirm")] == ["ack", "nack"]
    assert get(client, "short") is not None
    assert len(named(node, "queue")) == 1


def test_without_a_sample_nothing_is_recorded_and_nothing_is_in_the_way() -> None:
    with Node() as node:
        node.declare("q")
        client: Client = open_channel(node)
        publish(client, "q", b"m", headers={"traceparent": f"00-{TRACE}-{SPAN}-01"})
        assert get(client, "q") is not None
        assert node.core(0).state.tracing.sample is None
        assert type(node.core(0).services.publishing).__name__ == "Publishing"
        assert node.core(0).state.tracing.spans.last == node.shard(0).traces.spans.last == 0
