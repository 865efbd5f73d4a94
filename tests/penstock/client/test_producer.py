"""The producer for threads, with the test in place of its broker."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import pytest

from penstock.client import (
    Closed,
    ConnectionLost,
    FlowCommand,
    Producer,
    Refused,
    Rejected,
    Stopped,
    TimedOut,
    Unroutable,
    WindowFull,
)
from tests.penstock.client.peer import Listener
from tests.ports import closed_port
from tests.waiting import PATIENCE, wait_for


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as listener:
        yield listener


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


class Connected:
    """A producer and its peer. `close` has no effect if the producer is closed already."""

    def __init__(self, listener: Listener, threads: ThreadPoolExecutor, **options: Any) -> None:
        self.listener = listener
        self.threads = threads
        made = threads.submit(Producer, listener.url, **options)
        self.peer = listener.accept()
        self.producer = made.result(PATIENCE)
        self.closed = False

    def send(self, body: bytes, **options: Any) -> Future[str]:
        receipt = self.producer.send(body, "q", timeout=PATIENCE, **options)
        assert receipt is not None
        return receipt

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        closing = self.threads.submit(self.producer.close, 0)
        self.peer.part()
        closing.result(PATIENCE)


@pytest.fixture
def connected(listener: Listener, threads: ThreadPoolExecutor) -> Iterator[Connected]:
    connected = Connected(listener, threads, window_count=3)
    yield connected
    connected.close()


def test_a_message_is_confirmed_by_its_id(connected: Connected) -> None:
    receipts = [connected.send(b"1", properties={"message_id": "7"}), connected.send(b"2")]
    first, second = connected.peer.take("basic.publish"), connected.peer.take("basic.publish")
    assert (first.body, first.routing_key, first.mandatory) == (b"1", "q", True)
    assert first.properties == {"delivery_mode": 2, "message_id": "7"}
    assert not any(receipt.done() for receipt in receipts)
    connected.peer.send("basic.ack", 1, delivery_tag=2, multiple=True)
    assert [receipt.result(PATIENCE) for receipt in receipts] == ["7", second.properties["message_id"]]
    assert connected.peer.client_properties["product"] == "penstock producer"


def test_a_full_window_holds_until_a_confirm(connected: Connected) -> None:
    for body in (b"1", b"2", b"3"):
        connected.send(body)
    why = f"3 of 3 messages to {connected.listener.address} are not confirmed"
    with pytest.raises(WindowFull, match=why):
        connected.producer.send(b"no", "q", on_full="raise")
    with pytest.raises(TimedOut, match=rf"after 0\.\d s: {why}"):
        connected.producer.send(b"no", "q", timeout=0)
    assert connected.producer.send(b"no", "q", on_full="drop") is None
    waiting = connected.threads.submit(connected.send, b"4")
    wait_for(lambda: connected.producer.metrics().waiting == 1)
    assert connected.peer.take_bodies(3) == [b"1", b"2", b"3"] and not waiting.done()
    connected.peer.send("basic.ack", 1, delivery_tag=1)
    waiting.result(PATIENCE)
    assert connected.peer.take_bodies(1) == [b"4"]
    metrics = connected.producer.metrics()
    assert (metrics.accepted, metrics.confirmed, metrics.unconfirmed) == (4, 1, 3)
    assert (metrics.full, metrics.timed_out, metrics.dropped) == (1, 1, 1)


def test_the_brokers_flow_control_stops_and_resumes_it(listener: Listener, threads: ThreadPoolExecutor) -> None:
    reported: SimpleQueue[FlowCommand] = SimpleQueue()
    connected = Connected(listener, threads, on_flow=reported.put)
    connected.peer.send("channel.flow", 1, active=False)
    assert connected.peer.take("channel.flow-ok").active is False
    assert reported.get(timeout=PATIENCE) == (True, "flow", "", 0.0)
    with pytest.raises(Stopped, match=f"^channel.flow of {listener.address}$"):
        connected.producer.send(b"no", "q", on_full="raise")
    connected.peer.send("connection.blocked", reason="queue 'q' is full")
    assert reported.get(timeout=PATIENCE) == (True, "blocked", "queue 'q' is full", 0.0)
    waiting = threads.submit(connected.send, b"at last")
    wait_for(lambda: connected.producer.metrics().waiting == 1)
    connected.peer.send("channel.flow", 1, active=True)
    assert connected.peer.take("channel.flow-ok").active is True
    assert reported.get(timeout=PATIENCE)[:2] == (False, "flow")
    assert not waiting.done(), "it is still blocked"
    connected.peer.send("connection.unblocked")
    assert reported.get(timeout=PATIENCE)[:2] == (False, "blocked")
    assert connected.peer.take_bodies(1) == [b"at last"]
    connected.close()


def test_unconfirmed_messages_are_sent_again_after_a_loss(connected: Connected) -> None:
    receipts = [connected.send(b"%d" % number) for number in range(3)]
    sent = [connected.peer.take("basic.publish") for _ in range(3)]
    connected.peer.send("basic.ack", 1, delivery_tag=1)
    receipts[0].result(PATIENCE)
    connected.peer.drop()
    connected.peer = connected.listener.accept()
    again = [connected.peer.take("basic.publish") for _ in range(2)]
    assert again == sent[1:], "with the same ids, in order"
    connected.peer.send("basic.ack", 1, delivery_tag=2, multiple=True)
    assert [receipt.result(PATIENCE) for receipt in receipts[1:]] == [each.properties["message_id"] for each in again]
    metrics = connected.producer.metrics()
    assert (metrics.sent, metrics.sent_again, metrics.connections, metrics.unconfirmed) == (3, 2, 2, 0)


def test_each_refusal_of_the_broker_fails_its_message_only(connected: Connected) -> None:
    returned, nacked = connected.send(b"returned"), connected.send(b"nacked")
    connected.peer.give_back(connected.peer.take("basic.publish"), 312, "NO_ROUTE", depth=5)
    connected.peer.send("basic.ack", 1, delivery_tag=1)
    assert connected.peer.take_bodies(1) == [b"nacked"]
    connected.peer.send("basic.nack", 1, delivery_tag=2)
    with pytest.raises(Unroutable, match=r"^312 NO_ROUTE: exchange '', routing key 'q'$") as unroutable:
        returned.result(PATIENCE)
    assert unroutable.value.headers == {"depth": 5}
    with pytest.raises(Rejected, match=f"refused by {connected.listener.address}: exchange '', routing key 'q'"):
        nacked.result(PATIENCE)
    refused = connected.send(b"refused", exchange="none")
    assert connected.peer.take_bodies(1) == [b"refused"]
    connected.peer.send("channel.close", 1, code=404, text="NOT_FOUND - no exchange 'none'")
    connected.peer.take("channel.close-ok")
    connected.peer.open_channel()
    with pytest.raises(Refused, match=r"^404 NOT_FOUND - no exchange 'none'$"):
        refused.result(PATIENCE)
    good = connected.send(b"good")
    assert connected.peer.take_bodies(1) == [b"good"]
    connected.peer.send("basic.ack", 1, delivery_tag=1)
    assert good.result(PATIENCE)


def test_a_flush_waits_for_every_confirm(connected: Connected) -> None:
    connected.producer.flush(0)
    receipt = connected.send(b"x")
    with pytest.raises(TimedOut, match=f"1 messages to {connected.listener.address} are not confirmed"):
        connected.producer.flush(0)
    flushing = connected.threads.submit(connected.producer.flush, PATIENCE)
    connected.peer.take("basic.publish")
    connected.peer.send("basic.ack", 1, delivery_tag=1)
    flushing.result(PATIENCE)
    assert receipt.done()


def test_what_is_not_confirmed_at_the_end_fails_as_closed(connected: Connected) -> None:
    receipt = connected.send(b"x")
    connected.peer.take("basic.publish")
    connected.close()
    with pytest.raises(Closed, match="the producer was closed"):
        receipt.result(0)
    with pytest.raises(Closed, match="the producer is closed"):
        connected.producer.send(b"late", "q")
    assert connected.producer.metrics().given_up == 1


@pytest.mark.parametrize("failure", [None, KeyError("of the block")])
def test_the_end_of_with_reports_missing_confirms_or_the_blocks_own_error(
    listener: Listener, threads: ThreadPoolExecutor, failure: Exception | None
) -> None:
    connected = Connected(listener, threads, close_seconds=0)

    def use() -> None:
        with connected.producer as producer:
            producer.send(b"x", "q")
            if failure:
                raise failure

    using = threads.submit(use)
    connected.peer.part()
    with pytest.raises(KeyError if failure else TimedOut):
        using.result(PATIENCE)


def test_a_broker_that_is_not_there_or_refuses_is_an_error_of_the_constructor(
    listener: Listener, threads: ThreadPoolExecutor
) -> None:
    with closed_port() as port, pytest.raises(ConnectionLost, match=rf"no connection to 127\.0\.0\.1:{port}"):
        Producer(f"amqp://127.0.0.1:{port}/", connect_seconds=0.1)
    made = threads.submit(Producer, listener.url, connect_seconds=PATIENCE)
    peer = listener.connection()
    peer.greet()
    peer.take("connection.open")
    peer.send("connection.close", code=530, text="NOT_ALLOWED - no such vhost")
    with pytest.raises(ConnectionLost, match=r"530.*NOT_ALLOWED - no such vhost"):
        made.result(PATIENCE)


@pytest.mark.parametrize(
    "options",
    [
        {"exchange": "x" * 256},
        {"properties": {"content_type": 5}},
        {"properties": {"headers": {"a": object()}}},
        {"properties": {"priority": "high"}},
        {"properties": {"priority": 300}},
        {"properties": {"headers": {"a": 2**70}}},
    ],
)
def test_what_cannot_be_encoded_is_the_callers_error(connected: Connected, options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        connected.producer.send(b"x", **options)
    connected.send(b"next")
    assert connected.peer.take_bodies(1) == [b"next"]
    assert connected.producer.metrics().accepted == 1
