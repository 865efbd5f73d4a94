"""The chain of causes behind a held connection: it waits for a queue, which waits for its consumers, which …"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.text.durations import shown

Facts = dict[str, Any]
Line = tuple[int, str]
"""The depth in the chain, and the text at that depth."""

FULL = {"channel": "amqp.unacked_bytes", "user": "limits.user_unacked_messages or limits.user_unacked_bytes"}
"""The settings that make consumers wait until fewer messages are unacked."""
SHOWN_CONSUMERS = 10
"""Consumers listed of each queue; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The held channels of a node at a moment, and their causes: the answers `held` and `unread` of its acceptors
    (`acceptor.questions`), the rates of queues by slot (`console.flow.rates`), and the consumers of a queue that is a
    cause: those of its shard (`shard.questions`), each with `whose`, the facts that its acceptor has of it, or None.
    """

    held: Iterable[Facts]
    unread: Iterable[Facts]
    rates: Mapping[int, Facts]
    consumers: Callable[[Facts], list[Facts]]


def explained(situation: Situation, connection: str) -> list[Line]:
    """Return the reasons why a connection is held, or not read; none if it is neither."""
    return _Chain(situation).of(connection)


def queues_of(channels: Iterable[Facts]) -> dict[int, Facts]:
    """Return the causes of held channels that are queues, by queue id."""
    causes = (cause for channel in channels for cause in channel["causes"])
    return {cause["id"]: cause for cause in causes if cause["kind"] == "queue"}


def by_acceptor(consumers: Iterable[Facts]) -> dict[int, list[int]]:
    """Return the ids of a shard's consumers by the acceptors that know whose they are."""
    ids: dict[int, list[int]] = {}
    for consumer in consumers:
        if consumer["acceptor"] is not None:
            ids.setdefault(consumer["acceptor"], []).append(consumer["id"])
    return ids


def with_owners(consumers: Iterable[Facts], answers: Iterable[list[Facts]]) -> list[Facts]:
    """Return a shard's consumers, each with `whose`: the facts that the acceptors have answered about it, or None."""
    whose = {each["id"]: each for answer in answers for each in answer}
    return [{**consumer, "whose": whose.get(consumer["id"])} for consumer in consumers]


def on_rung(rung: Facts) -> str:
    """Describe the rung of its ladder that a channel is on."""
    words = f"on rung {rung['name']} for {shown(rung['seconds'])}"
    return words if rung["next_in"] is None else f"{words}, {rung['next']} in {shown(rung['next_in'])}"


def state_of(consumer: Facts) -> str:
    """Describe what a consumer has in hand, and what keeps it from more (`shard.questions`)."""
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


class _Chain:
    """A situation, walked through from one connection on."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._held: dict[str, list[Facts]] = {}
        for channel in situation.held:
            self._held.setdefault(channel["connection"], []).append(channel)
        self._passed: set[object] = set()
        self._lines: list[Line] = []

    def of(self, connection: str) -> list[Line]:
        for found in self._situation.unread:
            if found["connection"] == connection:
                self._say(
                    0, f"connection {connection} ({_client(found)}): not read for {shown(found['unread_seconds'])}"
                )
                self._say(1, f"{found['reason']}: {found['bytes']} bytes")
        if connection in self._held:
            self._connection(connection, 0)
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
        consumers = self._situation.consumers(cause)
        if not consumers:
            self._say(depth, "it has no consumers")
            return
        self._say(depth, f"{len(consumers)} consumers:" if len(consumers) > 1 else "1 consumer:")
        slowest_first = sorted(consumers, key=lambda consumer: -(consumer["settled_seconds"] or float("inf")))
        for consumer in slowest_first[:SHOWN_CONSUMERS]:
            self._consumer(consumer, depth + 1)
        if len(consumers) > SHOWN_CONSUMERS:
            self._say(depth + 1, f"and {len(consumers) - SHOWN_CONSUMERS} more")

    def _rate(self, cause: Facts) -> str:
        drained = self._situation.rates.get(cause["slot"])
        if drained is None or drained["drained_per_second"] <= 0:
            return "nothing leaves it"
        text = f"{drained['drained_per_second']:g} messages a second leave it"
        return text if drained["resumes_in"] is None else f"{text}: free in about {shown(drained['resumes_in'])}"

    def _consumer(self, consumer: Facts, depth: int) -> None:
        name, known = "basic.get of a channel", consumer["whose"]
        if known is not None:
            name = f"{known['tag']} of connection {known['connection']} ({known['client']}, {known['peer']})"
        self._say(depth, f"{name}: {state_of(consumer)}")
        if known is not None and known["connection"] in self._held:
            if known["connection"] in self._passed:
                self._say(depth + 1, f"connection {known['connection']} is held itself, see above: a circle")
            else:
                self._connection(known["connection"], depth + 1)


def _client(found: Facts) -> str:
    return ", ".join(filter(None, (found["client"], f"user {found['user']}", found["peer"])))
