"""Producers and consumers of numbered messages that work while a test changes the node."""

from __future__ import annotations

import selectors
import threading
import time
from typing import Any, Self

from tests.broker.process import Broker
from tests.raw import Client
from tests.waiting import PATIENCE, wait_for

OPEN_MAX = 10
"""The most unconfirmed messages of a producer: few, so that all producers keep in step, however slow a shard is."""


class Producer:
    """A producer of numbered messages to one queue, with confirms."""

    def __init__(self, broker: Broker, queue: str) -> None:
        self.client = Client.connect(broker.address)
        self.channel = self.client.channel()
        self.channel.call("queue.declare", queue=queue, durable=True)
        self.channel.call("confirm.select")
        self.queue = queue
        self.sent = 0
        self.open: set[int] = set()

    def publish(self) -> None:
        """Publish the next message."""
        self.channel.publish(b"%d" % self.sent, self.queue, delivery_mode=2)
        self.sent += 1
        self.open.add(self.sent)

    def gather(self) -> int:
        """Process arrived confirms; return the number still missing. AssertionError on anything but acks."""
        self.client.poll()
        line = self.client.line(1)
        while line:
            event = line.popleft()
            assert event.name == "basic.ack", event
            tag = event.delivery_tag
            self.open -= {number for number in self.open if number <= tag} if event.multiple else {tag}
        return len(self.open)


class Traffic:
    """A producer and a consumer for each queue, at work inside the `with` block."""

    def __init__(self, broker: Broker, weights: dict[str, int]) -> None:
        self.weights = weights
        self.seen: dict[str, list[int]] = {name: [] for name in weights}
        self.redelivered = 0
        self.failed: list[BaseException] = []
        self._producers = {name: Producer(broker, name) for name in weights}
        self._consumers = {name: Client.connect(broker.address) for name in weights}
        for name in weights:
            consumer = self._consumers[name].channel()
            consumer.call("basic.qos", prefetch_count=50)
            consumer.call("basic.consume", queue=name)
        self._publish, self._consume = True, True
        self._threads = [
            threading.Thread(target=self._guard, args=(run,)) for run in (self._producing, self._consuming)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._publish = False
        self._threads[0].join(PATIENCE)
        self._consume = False
        self._threads[1].join(PATIENCE)
        for client in (*(each.client for each in self._producers.values()), *self._consumers.values()):
            client.__exit__()

    def finish(self) -> None:
        """Publish no more, and wait until all messages are confirmed and received."""
        self._publish = False
        self._threads[0].join(2 * PATIENCE)
        wait_for(lambda: self.failed or self.received == self.sent, 2 * PATIENCE, "all messages")
        assert not self.failed, self.failed

    @property
    def sent(self) -> dict[str, int]:
        """The number of messages that each queue's producer has published."""
        return {name: producer.sent for name, producer in self._producers.items()}

    @property
    def received(self) -> dict[str, int]:
        """The number of messages that each queue's consumer has received."""
        return {name: len(numbers) for name, numbers in self.seen.items()}

    def _guard(self, run: Any) -> None:
        try:
            run()
        except BaseException as error:
            self.failed.append(error)
            raise

    def _producing(self) -> None:
        while self._publish:
            for name, weight in self.weights.items():
                producer = self._producers[name]
                for _ in range(weight):
                    producer.publish()
                while producer.gather() > OPEN_MAX:
                    time.sleep(0.001)
            time.sleep(0.02)
        for producer in self._producers.values():
            wait_for(lambda producer=producer: not producer.gather(), 2 * PATIENCE, "confirms")

    def _consuming(self) -> None:
        with selectors.DefaultSelector() as selector:
            for name, client in self._consumers.items():
                selector.register(client.socket, selectors.EVENT_READ, name)
            while self._consume:
                for key, _ in selector.select(0.1):
                    self._take(key.data)

    def _take(self, name: str) -> None:
        client = self._consumers[name]
        client.receive()
        line, tag = client.line(1), 0
        while line:
            event = line.popleft()
            assert event.name == "basic.deliver", event
            self.seen[name].append(int(event.body))
            self.redelivered += event.redelivered
            tag = event.delivery_tag
        if tag:
            client.send("basic.ack", 1, delivery_tag=tag, multiple=True)
