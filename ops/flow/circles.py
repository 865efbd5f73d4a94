"""Deadlocks at full queues: circles of connections that wait for each other, and queues that lock out their consumers.

A full queue stays full if all its consumers are stuck: each has unacked messages, has settled none for a while, and its
own connection is held for as long; or, if that is not held, another connection of the same party (user and host), as
most programs consume and publish on two. If such a chain returns to a connection, none of its connections will ever
proceed, provided that they all settle only after their publishes have gone.

A circle of two or more queues is a *ring* if every consumer of every queue is on a connection that waits in the circle
itself. A ring is found as soon as its consumers are known to be stuck.

One connection of a party may wait for the very queue that another consumes. Usually that is a producer beside a
consumer that is slow for once, so such a circle takes longest to be found.

A *lock-out* is a full queue whose messages are all unacked, while its consumers could be sent more, and have neither
received nor settled any for a while: they settle in batches larger than the queue may hold.

How long "a while" is depends on the consumer: a multiple of its usual time, so that a slow consumer does not count as
stuck; or the time of the setting, for one that has not settled often enough to have a usual time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Facts = dict[str, Any]

FIRST_PART, REPEAT_PART = 10, 50
"""Divisors of the setting's time. Among quick consumers a circle is found after the time / FIRST_PART, and just after
another deadlock after the time / REPEAT_PART. A ring is found after the time / REPEAT_PART; among consumers without a
usual time, / FIRST_PART.
"""
USUAL = 20
"""A consumer is stuck when it has settled nothing for this many times its usual time."""


class Times(NamedTuple):
    """Seconds after which a consumer is stuck: `least` if it is quick, `most` if it has no usual time."""

    least: float
    most: float


class Circle(NamedTuple):
    """Connections that wait for each other, each for the queue at the same position in `queues`."""

    connections: tuple[str, ...]
    queues: tuple[Facts, ...]

    def __str__(self) -> str:
        pairs = zip(self.connections, self.queues, strict=True)
        steps = [f"connection {connection} waits for queue '{queue['name']}'" for connection, queue in pairs]
        return f"{'; its consumer '.join(steps)}, consumed by connection {self.connections[0]}"

    @property
    def key(self) -> frozenset[str]:
        """Identifies the circle: its connections."""
        return frozenset(self.connections)


class Lockout(NamedTuple):
    """A queue that is full of messages that its consumers have not acked."""

    queue: Facts

    def __str__(self) -> str:
        return f"queue '{self.queue['name']}' is full of unacked messages, and its consumers wait for more"

    @property
    def key(self) -> frozenset[str]:
        """Identifies the lock-out: its queue."""
        return frozenset((f"queue {self.queue['id']}",))

    @property
    def queues(self) -> tuple[Facts, ...]:
        """The one queue, as a circle has them."""
        return (self.queue,)


def lockouts(
    held: Iterable[Facts], consumers: Callable[[Facts], list[Facts]], still: Callable[[Facts], bool], times: Times
) -> list[Lockout]:
    """Return the queues that lock out their consumers, among those that connections have waited for.

    `still` tells whether a queue has no ready messages, and none was delivered or acked since the last check. A queue
    is left out while a consumer's connection has itself been held for a short time: that may turn out to be a circle.
    """
    held = list(held)
    waits = _waits(held, times.least)
    waited_for = {cause["id"]: cause for causes in waits.values() for cause in causes}
    longest = _longest(held)
    held_recently = {channel["connection"] for channel in held if channel["held_seconds"] < times.most}
    return [
        Lockout(cause)
        for id, cause in waited_for.items()
        if still(cause)
        and _could_be_sent_more(consumers(cause), longest[id], times)
        and not any(consumer["connection"] in held_recently for consumer in consumers(cause))
    ]


def _could_be_sent_more(consumers: list[Facts], waited: float, times: Times) -> bool:
    """Whether all consumers of a queue are stuck, and one of them could be sent more."""
    if not all(is_stuck(consumer, waited, times) and consumer["active"] for consumer in consumers):
        return False
    return any(
        not consumer["full"] and (not consumer["prefetch"] or consumer["in_hand"] < consumer["prefetch"])
        for consumer in consumers
    )


def circles(
    held: Iterable[Facts], consumers: Callable[[Facts], list[Facts]], connection_of: Callable[[Facts], str | None],
    times: Times,
) -> list[Circle]:  # fmt: skip
    """Return the circles among the held channels (`acceptor.questions`).

    `consumers` returns the consumers of a queue (`shard.questions`), given as a cause; `connection_of` the connection
    of a consumer.
    """
    held = list(held)
    waits, longest = _waits(held, times.least), _longest(held)
    parties: dict[str, dict[str, None]] = {}
    for channel in held:
        if channel["connection"] in waits and channel.get("party"):
            parties.setdefault(channel["party"], {})[channel["connection"]] = None
    behind: dict[int, list[str]] = {}
    for cause in (cause for causes in waits.values() for cause in causes):
        if cause["id"] not in behind:
            found = consumers(cause)
            waited = longest[cause["id"]]
            if all(is_stuck(consumer, waited, times) for consumer in found):
                long = all(is_stuck(consumer, waited, Times(times.most, times.most)) for consumer in found)
                behind[cause["id"]] = _connections_behind(cause, found, connection_of, waits, parties, long)
            else:
                behind[cause["id"]] = []
    return _search(waits, behind)


def rings(
    held: Iterable[Facts], consumers: Callable[[Facts], list[Facts]], connection_of: Callable[[Facts], str | None],
    times: Times,
) -> list[Circle]:  # fmt: skip
    """Return the rings among the held channels; arguments as for `circles`."""
    alone = [{**channel, "party": None} for channel in held if channel["settles"]]
    found = circles(alone, consumers, connection_of, times)
    return [circle for circle in found if len({queue["id"] for queue in circle.queues}) > 1]


def _waits(held: Iterable[Facts], least: float) -> dict[str, list[Facts]]:
    """Return the queues that each connection has waited for, for at least `least` seconds."""
    waits: dict[str, list[Facts]] = {}
    for channel in held:
        if channel["held_seconds"] >= least:
            queues = [cause for cause in channel["causes"] if cause["kind"] == "queue" and cause["shard"] is not None]
            waits.setdefault(channel["connection"], []).extend(queues)
    return waits


def _longest(held: Iterable[Facts]) -> dict[int, float]:
    """Return the longest time that a channel waiting for a queue has been held, in seconds, by queue id."""
    longest: dict[int, float] = {}
    for channel in held:
        for cause in channel["causes"]:
            if cause["kind"] == "queue":
                longest[cause["id"]] = max(longest.get(cause["id"], 0.0), channel["held_seconds"])
    return longest


def is_stuck(consumer: Facts, waited: float, times: Times) -> bool:
    """Whether a consumer has unacked messages and does not settle them; its queue was waited for `waited` seconds."""
    if not consumer["in_hand"]:
        return False
    settled, usual = consumer["settled_seconds"], consumer["usual_seconds"]
    if usual is None:
        return waited >= times.most and (settled is None or settled >= times.most)
    return waited >= times.least and settled >= max(USUAL * usual, times.least)


def _connections_behind(
    cause: Facts, consumers: list[Facts], connection_of: Callable[[Facts], str | None], waits: dict[str, list[Facts]],
    parties: dict[str, dict[str, None]], long: bool,
) -> list[str]:  # fmt: skip
    """Return the held connections behind a queue's consumers, or of their parties; none if one consumer has no such
    connection. `long`: it has been long enough to include those of a party that wait for nothing but this queue.
    """
    found: dict[str, None] = {}
    for consumer in consumers:
        connection = connection_of(consumer)
        if connection in waits:
            found[connection] = None
            continue
        party = parties.get(consumer.get("party") or "", ())
        others = [other for other in party if long or any(queue["id"] != cause["id"] for queue in waits[other])]
        if not others:
            return []
        found.update(dict.fromkeys(others))
    return list(found)


def _search(waits: dict[str, list[Facts]], behind: dict[int, list[str]]) -> list[Circle]:
    """Return one circle for each set of connections that forms one, found depth first."""
    circles: dict[frozenset[str], Circle] = {}
    done: set[str] = set()

    def walk(connection: str, path: list[str], queues: list[Facts]) -> None:
        if connection in path:
            at = path.index(connection)
            circle = Circle(tuple(path[at:]), tuple(queues[at:]))
            circles.setdefault(circle.key, circle)
            return
        if connection in done:
            return
        for cause in waits.get(connection, ()):
            for other in behind[cause["id"]]:
                walk(other, [*path, connection], [*queues, cause])
        done.add(connection)

    for connection in waits:
        walk(connection, [], [])
    return list(circles.values())
