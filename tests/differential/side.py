"""One of the two brokers under comparison: methods go in, and its answers are recorded in a comparable form.

Answers are kept by place (connection, channel) and kind: the answers and errors of a channel in order, the deliveries
of each consumer in order, the returns, the set of confirmed tags. The order between kinds is free.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tests.differential.differences import text
from tests.frames import Event
from tests.raw import Channel, Client, Closed, HungUp

BARRIER = {"exchange": "amq.fanout", "type": "fanout", "passive": True}
GENERATED = re.compile(r"amq\.(gen|ctag)-[\w-]{22}")
NAMES = ("queue", "exchange", "source", "destination", "x-dead-letter-exchange", "alternate-exchange")
KEYS = ("routing_key", "x-dead-letter-routing-key", "CC", "BCC")
Place = tuple[int, int]
"""(connection, channel)"""
Log = dict[tuple[object, ...], Any]
Connect = Callable[[], Client]
"""Returns a new, logged-in connection to a broker."""


class Side:
    """A broker and some connections with one channel each, reopened whenever the broker closes them."""

    def __init__(self, connect: Connect, connections: int, prefix: str) -> None:
        """`prefix` begins all names in use, so that they are new to the broker; the log omits it."""
        self.connect = connect
        self.prefix = prefix
        self.log: Log = {}
        self.outstanding: list[dict[str, int]] = [{} for _ in range(connections)]
        """For each connection the delivery tags of unacked messages, by source and body of the message."""
        self._clients = [connect() for _ in range(connections)]
        self._channels = [client.channel(1) for client in self._clients]
        self._sources = [dict[str, bool]() for _ in range(connections)]
        """For each connection, whether the deliveries of a consumer (or "get") are to be settled."""
        self.declared: set[str] = set()
        """The queues that were declared, under their full names."""
        self._monitor = connect()
        self._monitored = 0

    def close(self) -> None:
        """Close all connections."""
        for client in [*self._clients, self._monitor]:
            client.__exit__()

    # In

    def act(self, at: int, name: str, arguments: Mapping[str, Any]) -> None:
        """Send a method on the channel of a connection and wait until the broker has processed it."""
        self._send(at, name, arguments)
        channel = self._channels[at]
        answered = not arguments.get("nowait") and name in ANSWERS
        try:
            if answered:
                self._write_down(at, channel.take(*ANSWERS[name]))
            channel.call("exchange.declare", **BARRIER)
        except (Closed, HungUp) as end:
            self._ended(at, end)

    def _send(self, at: int, name: str, arguments: Mapping[str, Any]) -> None:
        channel = self._channels[at]
        given = {key: self._own(key, value) for key, value in arguments.items()}
        if name in ("basic.get", "basic.consume"):
            self._sources[at][arguments.get("consumer_tag", "get")] = not arguments["no_ack"]
        if name == "basic.publish":
            channel.publish(given.pop("body"), **given)
        else:
            channel.send(name, **given)

    def _own(self, key: str, value: Any) -> Any:
        """Return a value with this run's names in place of the program's."""
        if isinstance(value, dict):
            return {inner: self._own(inner, each) for inner, each in value.items()}
        if isinstance(value, list):
            return [self._own(key, each) for each in value]
        if isinstance(value, str) and (
            (key in NAMES and value and not value.startswith("amq.")) or (key in KEYS and value.startswith("q"))
        ):
            return self.prefix + value
        return value

    # Out

    def receive(self) -> None:
        """Record the events that have arrived without a request."""
        for at, client in enumerate(self._clients):
            try:
                client.poll()
            except HungUp as end:
                self._ended(at, end)
            line = client.line(1)
            while line and line[0].name != "channel.close":
                self._write_down(at, line.popleft())
            if line or any(event.name == "connection.close" for event in client.line(0)):
                with suppress(TimeoutError):
                    self._ended(at, self._ending(at))

    def _ending(self, at: int) -> Closed | HungUp:
        try:
            self._channels[at].take("nothing")
        except (Closed, HungUp) as end:
            return end
        raise AssertionError("unreachable")

    def _ended(self, at: int, end: Closed | HungUp) -> None:
        """Record the end of a channel or connection, answer it, and open the channel or connection again."""
        client = self._clients[at]
        for event in list(client.line(1)):
            if event.name != "channel.close":
                self._write_down(at, event)
        client.line(1).clear()
        self.outstanding[at].clear()
        if isinstance(end, Closed):
            event = end.event
            words = (event.name, event.code, text(self._common(event.text)), event.class_id, event.method_id)
            self._note((at, "answers"), words)
        else:
            self._note((at, "answers"), "hung up")
        if isinstance(end, Closed) and end.event.name == "channel.close":
            client.send("channel.close-ok", 1)
        else:
            with suppress(OSError):
                client.send("connection.close-ok")
            client.socket.close()
            self._clients[at] = client = self.connect()
        self._channels[at] = client.channel(1)

    def reopen(self, at: int, whole: bool) -> None:
        """Close the channel, or the whole connection, in order, and open it again."""
        client = self._clients[at]
        if whole:
            client.close()
            self._clients[at] = client = self.connect()
        else:
            client.call("channel.close", 1, code=200)
            for event in list(client.line(1)):
                self._write_down(at, event)
            client.line(1).clear()
        self.outstanding[at].clear()
        self._channels[at] = client.channel(1)

    def _write_down(self, at: int, event: Event) -> None:
        if event.name == "queue.declare-ok":
            self.declared.add(event.queue)
        arguments = {key: self._common(value) for key, value in event.arguments.items()}
        tag = arguments.pop("delivery_tag", 0)
        content = (self._common(event.properties), event.body)
        if event.name == "basic.deliver":
            self._deliver(at, (at, "deliveries", arguments["consumer_tag"]), tag, arguments, content)
        elif event.name == "basic.get-ok":
            self._deliver(at, (at, "answers"), tag, arguments, content)
        elif event.name == "basic.return":
            self._note((at, "returns"), (arguments, content))
        elif event.name in ("basic.ack", "basic.nack"):
            self._confirm(at, event.name, tag, arguments)
        else:
            self._note((at, "answers"), (event.name, arguments))

    def _deliver(self, at: int, where: tuple[object, ...], tag: int, arguments: dict[str, Any], content: Any) -> None:
        source = arguments.get("consumer_tag", "get")
        if self._sources[at][source]:
            self.outstanding[at][f"{source} {content[1].decode()}"] = tag
        self._note(where, (arguments, content))

    def _confirm(self, at: int, name: str, tag: int, arguments: dict[str, Any]) -> None:
        confirmed = self.log.setdefault((at, "confirmed"), {})
        first = max((t for t in confirmed), default=0) + 1 if arguments["multiple"] else tag
        confirmed.update(dict.fromkeys(range(first, tag + 1), name))

    def _note(self, where: tuple[object, ...], what: object) -> None:
        self.log.setdefault(where, []).append(what)

    def _common(self, value: Any) -> Any:
        """Return a value without this run's prefix, generated names and times, which differ between equal brokers."""
        if isinstance(value, str):
            return GENERATED.sub(r"amq.\1", value.replace(self.prefix, ""))
        if isinstance(value, list):
            return [self._common(each) for each in value]
        if isinstance(value, dict):
            return {key: self._common(each) for key, each in value.items() if key != "time"}
        return value

    def settled(self, at: int, tag: int, multiple: bool) -> None:
        """Forget settled deliveries, so that they are rarely settled twice."""
        gone = [
            key for key, each in self.outstanding[at].items() if each == tag or (multiple and (each < tag or not tag))
        ]
        for key in gone:
            del self.outstanding[at][key]

    # State

    def state(self, names: list[str]) -> dict[str, object]:
        """Return the number of ready messages and consumers of each queue, or the code of the error."""
        found: dict[str, object] = {}
        for name in names:
            try:
                declared = self._asking().call("queue.declare", queue=self.prefix + name, passive=True)
            except Closed as closed:
                self._reopen_monitor()
                found[name] = closed.code
            else:
                found[name] = declared.messages, declared.consumers
        return found

    def _asking(self) -> Channel:
        if not self._monitored:
            self._monitored = 1
            return self._monitor.channel(1)
        return Channel(self._monitor, 1)

    def _reopen_monitor(self) -> None:
        """Accept that the monitor's channel was closed; the next question opens it again."""
        self._monitor.line(1).clear()
        self._monitor.send("channel.close-ok", 1)
        self._monitored = 0

    def clean(self, declared: set[str], queues: list[str], exchanges: list[str]) -> None:
        """Delete everything that a program may have left. `declared` queues have their full names."""
        for name in declared | {self.prefix + name for name in queues}:
            try:
                self._asking().call("queue.delete", queue=name)
            except Closed:  # an exclusive one
                self._reopen_monitor()
        for name in exchanges:
            self._asking().call("exchange.delete", exchange=self.prefix + name)


ANSWERS = {
    name: (f"{name}-ok",)
    for name in (
        "queue.declare", "queue.bind", "queue.unbind", "queue.purge", "queue.delete", "exchange.declare",
        "exchange.delete", "exchange.bind", "exchange.unbind", "basic.qos", "basic.consume", "basic.cancel",
        "basic.recover", "confirm.select", "tx.select", "tx.commit", "tx.rollback",
    )
} | {"basic.get": ("basic.get-ok", "basic.get-empty")}  # fmt: skip
