"""A producer that is held, and the stream of events, for the tests of this folder."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from typing import Any, Self

import urllib3

from tests.broker.flow import MARKS, STOP
from tests.console.http.node import GUEST, HttpBroker
from tests.outcomes import wait_get
from tests.raw import CAPABILITIES, Channel, Client
from tests.waiting import PATIENCE

UNACKED = 5
"""Messages that the consumer takes and does not ack."""


class Held:
    """A producer held by a queue whose consumer does not ack."""

    def __init__(self, node: HttpBroker, name: str) -> None:
        self.name = name
        properties = {"capabilities": CAPABILITIES, "product": "held"}
        self.consumer = Client.connect(node.address)
        self.producer = Client.connect(node.address, properties=properties)

    def __enter__(self) -> Self:
        channel = self.channel = self.consumer.channel()
        channel.call("exchange.declare", exchange=f"x.{self.name}", type="topic")
        channel.call("queue.declare", queue=self.name, durable=True, arguments=MARKS)
        channel.call("queue.bind", queue=self.name, exchange=f"x.{self.name}", routing_key="k.#")
        channel.call("basic.qos", prefetch_count=UNACKED)
        channel.call("basic.consume", queue=self.name, consumer_tag=f"c.{self.name}")
        self.publishing = self.producer.channel()
        for number in range(2 * STOP):
            self.publishing.publish(b"%d" % number, "k.1", exchange=f"x.{self.name}")
        self.producer.take("connection.blocked")
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()
        self.producer.kill()

    def drain(self, getting: Channel) -> None:
        """Take all messages that the consumer has not got, so that the producer is let go."""
        for _ in range(2 * STOP - UNACKED):
            wait_get(getting, self.name)
        self.producer.take("connection.unblocked")


class Events:
    """The stream of events, read in a thread."""

    def __init__(self, node: HttpBroker) -> None:
        self._url = f"http://{node.http().host}:{node.http().port}/api/flow/events"
        self._found: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()

    def __enter__(self) -> Self:
        headers = urllib3.make_headers(basic_auth=":".join(GUEST))
        self._pool = urllib3.PoolManager()
        self._answer = self._pool.request("GET", self._url, headers=headers, preload_content=False)
        assert self._answer.headers["content-type"].startswith("text/event-stream")
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()
        self._pool.clear()

    def _read(self) -> None:
        kind = ""
        for line in self._lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                self._found.put((kind, json.loads(value)))

    def _lines(self) -> Iterator[str]:
        rest = b""
        try:
            for part in self._answer.stream(65536, decode_content=False):
                *lines, rest = (rest + part).split(b"\n")
                yield from (line.decode() for line in lines)
        except (urllib3.exceptions.HTTPError, AttributeError, ValueError, OSError):
            return  # the test has closed the stream

    def take(self, kind: str, **wanted: Any) -> dict[str, Any]:
        """Wait for an event with these facts."""
        while True:
            found, facts = self._found.get(timeout=PATIENCE)
            if found == kind and all(facts.get(name) == value for name, value in wanted.items()):
                return facts
