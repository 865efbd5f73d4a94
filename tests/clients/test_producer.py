"""`penstock.client` with any AMQP 0-9-1 broker: confirms, errors and full windows.

To test with RabbitMQ: `--amqp-url`, or `test_producer_rabbitmq`.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from penstock.client import Closed, ConnectionLost, Producer, Refused, Rejected, TimedOut, Unroutable, WindowFull
from penstock.client import producer as threaded
from tests.clients.conftest import Make
from tests.conftest import Names
from tests.outcomes import wait_get
from tests.raw import Channel
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.broker


def confirmed(producer: Producer, body: bytes, queue: str, **options: Any) -> str:
    receipt = producer.send(body, queue, timeout=PATIENCE, **options)
    assert receipt
    return receipt.result(PATIENCE)


def test_a_flush_returns_when_receipts_are_told(
    url: str, channel: Channel, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush waits until receipts are resolved, even if the thread that resolves them is late."""
    flushed, resolve = threading.Event(), threaded.resolve

    def late(outcomes: list[Any]) -> None:
        flushed.wait(0.5)
        resolve(outcomes)

    channel.call("queue.declare", queue=queue)
    with Producer(url) as producer:
        monkeypatch.setattr(threaded, "resolve", late)
        receipt = producer.send(b"x", queue)
        producer.flush(PATIENCE)
        flushed.set()
        assert receipt and receipt.done()


class TestProducer:
    def test_what_is_confirmed_arrives_once_and_in_order(
        self, make: Make, url: str, channel: Channel, queue: str
    ) -> None:
        channel.call("queue.declare", queue=queue, durable=True)
        producer = make(url, window_count=50)
        receipts = [producer.send(b"%d" % number, queue, timeout=PATIENCE) for number in range(500)]
        producer.flush(PATIENCE)
        assert all(receipt and receipt.done() for receipt in receipts)
        assert [wait_get(channel, queue).body for _ in range(500)] == [b"%d" % number for number in range(500)]
        metrics = producer.metrics()
        assert (metrics.accepted, metrics.confirmed, metrics.unconfirmed, metrics.sent_again) == (500, 500, 0, 0)

    def test_properties_are_those_given_and_an_id(self, make: Make, url: str, channel: Channel, queue: str) -> None:
        channel.call("queue.declare", queue=queue)
        producer = make(url)
        confirmed(
            producer, b"a", queue, properties={"content_type": "text/plain", "headers": {"k": 1}, "message_id": "7"}
        )
        found = wait_get(channel, queue).properties
        assert (found["content_type"], found["headers"], found["message_id"]) == ("text/plain", {"k": 1}, "7")
        given = confirmed(producer, b"b", queue)
        found = wait_get(channel, queue).properties
        assert found["message_id"] == given and found["delivery_mode"] == 2

    def test_many_threads(self, make: Make, url: str, channel: Channel, queue: str) -> None:
        """Each thread's messages keep their order."""
        channel.call("queue.declare", queue=queue)
        producer = make(url, window_count=20)

        def send(thread: int) -> None:
            for number in range(50):
                producer.send(b"%d %d" % (thread, number), queue, timeout=PATIENCE)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush(PATIENCE)
        bodies = [wait_get(channel, queue).body.split() for _ in range(400)]
        for thread in range(8):
            assert [int(n) for t, n in bodies if int(t) == thread] == list(range(50))

    def test_an_unroutable_message(self, make: Make, url: str) -> None:
        producer = make(url)
        receipt = producer.send(b"lost", "nowhere-at-all", timeout=PATIENCE)
        assert receipt
        with pytest.raises(Unroutable, match=r"312 NO_ROUTE: exchange '', routing key 'nowhere-at-all'") as caught:
            receipt.result(PATIENCE)
        assert caught.value.code == 312
        assert producer.metrics().returned == 1
        confirmed(producer, b"not asked for", "nowhere-at-all", mandatory=False)

    def test_a_queue_that_rejects(self, make: Make, url: str, channel: Channel, queue: str) -> None:
        channel.call("queue.declare", queue=queue, arguments={"x-max-length": 3, "x-overflow": "reject-publish"})
        producer = make(url)
        for number in range(3):
            confirmed(producer, b"%d" % number, queue)
        receipt = producer.send(b"3", queue)
        assert receipt
        with pytest.raises(Rejected, match=queue):
            receipt.result(PATIENCE)
        wait_get(channel, queue)
        confirmed(producer, b"4", queue)

    def test_a_message_that_closes_the_channel_is_found_and_the_others_arrive(
        self, make: Make, url: str, channel: Channel, names: Names, queue: str
    ) -> None:
        channel.call("queue.declare", queue=queue)
        producer = make(url)
        missing = names("missing")
        good = [producer.send(b"%d" % number, queue) for number in range(10)]
        bad = producer.send(b"bad", "", exchange=missing)
        good += [producer.send(b"%d" % number, queue) for number in range(10, 20)]
        assert bad
        with pytest.raises(Refused, match=f"404 NOT_FOUND - no exchange '{missing}' in vhost '/'"):
            bad.result(PATIENCE)
        for receipt in good:
            assert receipt and receipt.result(PATIENCE)
        found = [wait_get(channel, queue).body for _ in range(channel.depth(queue))]
        assert set(found) == {b"%d" % number for number in range(20)}
        assert producer.metrics().refused == 1

    def test_what_cannot_be_said_is_the_callers_error(self, make: Make, url: str, channel: Channel, queue: str) -> None:
        channel.call("queue.declare", queue=queue)
        producer = make(url)
        with pytest.raises((ValueError, TypeError)):
            producer.send(b"", "k" * 256)
        with pytest.raises((ValueError, TypeError)):
            producer.send(b"", queue, properties={"no_such": 1})
        confirmed(producer, b"", queue)

    def test_nobody_there(self, make: Make, url: str, unused_port: int) -> None:
        with pytest.raises(ConnectionLost, match=f"127.0.0.1:{unused_port}"):
            make(f"amqp://127.0.0.1:{unused_port}", connect_seconds=0.5)

    def test_a_wrong_password_or_vhost_is_not_tried_again(self, make: Make, url: str) -> None:
        with pytest.raises(ConnectionLost, match="ACCESS_REFUSED"):
            make(url.replace("guest:guest@", "guest:wrong@"))
        with pytest.raises(ConnectionLost, match=r"NOT_ALLOWED - vhost nowhere not found|Connection.Close"):
            make(f"{url}nowhere")

    def test_closed(self, make: Make, url: str, channel: Channel, queue: str) -> None:
        channel.call("queue.declare", queue=queue)
        producer = make(url)
        receipt = producer.send(b"last", queue)
        producer.close(PATIENCE)
        assert receipt and receipt.result(0)
        if isinstance(producer, Producer):
            with pytest.raises(Closed):
                producer.send(b"too late", queue)

    def test_a_window_that_is_full(self, make: Make, url: str, channel: Channel, queue: str) -> None:
        """Only unconfirmed messages hold the producer, here one at a time."""
        channel.call("queue.declare", queue=queue)
        producer = make(url, window_bytes=1)

        def refused() -> bool:
            try:
                producer.send(b"x", queue, on_full="raise")
            except WindowFull:
                return True
            return False

        wait_for(refused, what="a window that is full", interval=0)
        producer.flush(PATIENCE)
        metrics = producer.metrics()
        assert metrics.full == 1
        wait_for(lambda: channel.depth(queue) == metrics.accepted)

    def test_flush_gives_up_in_time(self, make: Make, url: str, channel: Channel, queue: str) -> None:
        channel.call("queue.declare", queue=queue)
        producer = make(url)

        def late() -> bool:
            producer.send(b"", queue)
            try:
                producer.flush(-1)
            except TimedOut:
                return True
            return False  # the message was confirmed meanwhile

        wait_for(late, interval=0)
        producer.flush(PATIENCE)
