"""The chain of causes behind a held connection: it waits for a queue, which waits for its consumers, which …"""

from __future__ import annotations

from ops.administration.processes import Facts, Processes
from ops.errors import CommandError
from ops.flow.asking import drained, held, on_rung, unread
from penstock.text.durations import shown

Line = tuple[int, str]
"""The depth in the chain, and the text at that depth."""

FULL = {"channel": "amqp.unacked_bytes", "user": "limits.user_unacked_messages or limits.user_unacked_bytes"}
"""The settings that make consumers wait until fewer messages are unacked."""
SHOWN_CONSUMERS = 10
"""Consumers listed of each queue; the rest are counted."""


def explained(processes: Processes, connection: str) -> list[Line]:
    """Return the reasons why a connection is held, or not read. CommandError if it is neither."""
    return _Chain(processes).of(connection)


class _Chain:
    """A snapshot of a node, walked through from one connection on."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._held: dict[str, list[Facts]] = {}
        channels = held(processes)
        for channel in channels:
            self._held.setdefault(channel["connection"], []).append(channel)
        causes = [cause for channel in channels for cause in channel["causes"]]
        self._drained = drained(processes, {cause["slot"] for cause in causes if cause["kind"] == "queue"})
        self._passed: set[object] = set()
        self._lines: list[Line] = []

    def of(self, connection: str) -> list[Line]:
        for found in unread(self._processes):
            if found["connection"] == connection:
                self._say(
                    0, f"connection {connection} ({_client(found)}): not read for {shown(found['unread_seconds'])}"
                )
                self._say(1, f"{found['reason']}: {found['bytes']} bytes")
        if connection in self._held:
            self._connection(connection, 0)
        if not self._lines:
            raise CommandError(f"connection {connection} is not held")
        return self._lines

    def _say(self, depth: int, text: str) -> None:
        self._lines.append((depth, text))

    def _connection(self, connection: str, depth: int) -> None:
        self._passed.add(connection)
        for channel in self._held[connection]:
            since = f"held for {shown(channel['held_seconds'])}"
            if channel["rung"]:
                since = f"{since}, {on_rung(channel['rung'])}"
            self._say(depth, f"connection {connection} ({_client(channel)}), channel {channel['channel']}: {since}")
            if channel["spent"]:
                self._say(depth + 1, f"allowance used up: {channel['spent']}")
            for cause in channel["causes"]:
                self._say(depth + 1, f"waits for {cause['text']}" if cause["kind"] != "stop" else cause["text"])
                if cause["kind"] == "queue":
                    self._queue(cause, depth + 2)

    def _queue(self, cause: Facts, depth: int) -> None:
        if cause["id"] in self._passed:
            self._say(depth, "see above")
            return
        self._passed.add(cause["id"])
        self._say(depth, self._rate(cause))
        from router.model.delaying import is_delay_queue  # not at the top: it takes long to import

        if is_delay_queue(cause["name"]):
            self._say(depth, "its messages wait until they are due")
            return
        if cause["shard"] is None:
            return
        consumers = self._processes.ask("shard", cause["shard"], "consumers", id=cause["id"])
        if not consumers:
            self._say(depth, "it has no consumers")
            return
        whose = self._whose(consumers)
        self._say(depth, f"{len(consumers)} consumers:" if len(consumers) > 1 else "1 consumer:")
        consumers.sort(key=lambda consumer: -(consumer["settled_seconds"] or float("inf")))
        for consumer in consumers[:SHOWN_CONSUMERS]:
            self._consumer(consumer, whose.get(consumer["id"]), depth + 1)
        if len(consumers) > SHOWN_CONSUMERS:
            self._say(depth + 1, f"and {len(consumers) - SHOWN_CONSUMERS} more")

    def _rate(self, cause: Facts) -> str:
        drained = self._drained.get(cause["slot"])
        if drained is None or drained["drained_per_second"] <= 0:
            return "nothing leaves it"
        text = f"{drained['drained_per_second']:g} messages a second leave it"
        return text if drained["resumes_in"] is None else f"{text}: free in about {shown(drained['resumes_in'])}"

    def _whose(self, consumers: list[Facts]) -> dict[int, Facts]:
        """Return the facts that acceptors have of these consumers, by id."""
        by_acceptor: dict[int, list[int]] = {}
        for consumer in consumers:
            if consumer["acceptor"] is not None:
                by_acceptor.setdefault(consumer["acceptor"], []).append(consumer["id"])
        found = (self._processes.ask("acceptor", index, "consumers", ids=ids) for index, ids in by_acceptor.items())
        return {consumer["id"]: consumer for answer in found for consumer in answer}

    def _consumer(self, consumer: Facts, known: Facts | None, depth: int) -> None:
        name = "basic.get of a channel"
        if known is not None:
            name = f"{known['tag']} of connection {known['connection']} ({known['client']}, {known['peer']})"
        self._say(depth, f"{name}: {_state(consumer)}")
        if known is not None and known["connection"] in self._held:
            if known["connection"] in self._passed:
                self._say(depth + 1, f"connection {known['connection']} is held itself, see above: a circle")
            else:
                self._connection(known["connection"], depth + 1)


def _client(found: Facts) -> str:
    return ", ".join(filter(None, (found["client"], f"user {found['user']}", found["peer"])))


def _state(consumer: Facts) -> str:
    said = []
    if not consumer["active"]:
        said.append("its client has stopped deliveries (channel.flow)")
    if consumer["prefetch"]:
        full = consumer["in_hand"] >= consumer["prefetch"]
        said.append(f"{'prefetch full: ' if full else ''}{consumer['in_hand']} of {consumer['prefetch']} unacked")
    elif consumer["in_hand"]:
        said.append(f"{consumer['in_hand']} unacked")
    if consumer["full"]:
        said.append(f"its {consumer['full']} is at its limit of unacked messages ({FULL[consumer['full']]})")
    if not consumer["window_open"]:
        said.append("its socket is full")
    if consumer["settled_seconds"] is not None:
        said.append(f"last ack {shown(consumer['settled_seconds'])} ago")
    elif consumer["in_hand"]:
        said.append("no ack yet")
    return ", ".join(said) or "ready for more"
