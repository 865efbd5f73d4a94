"""Circles of waiting among full queues: a held connection waits for a queue, whose consumers wait for themselves.

A queue that holds a connection waits for its consumers only if none of them goes on: each has something in hand and has
settled nothing for a while, and its own connection is held for as long. Where such a chain comes back to a connection
nobody in it will ever go on by himself, if all of them settle only when what they publish has gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Facts = dict[str, Any]


class Circle(NamedTuple):
    """Connections that wait for each other, each for the queue of the same place."""

    connections: tuple[str, ...]
    queues: tuple[Facts, ...]

    def __str__(self) -> str:
        pairs = zip(self.connections, self.queues, strict=True)
        steps = [f"connection {connection} waits for queue '{queue['name']}'" for connection, queue in pairs]
        return f"{', whose consumers are of '.join(steps)}, whose consumers are of connection {self.connections[0]}"

    @property
    def key(self) -> frozenset[str]:
        return frozenset(self.connections)


def circles(
    held: Iterable[Facts], consumers: Callable[[Facts], list[Facts]], connection_of: Callable[[Facts], str | None],
    seconds: float,
) -> list[Circle]:  # fmt: skip
    """The circles among those who are held (`acceptor.told`) for so long.

    `consumers` tells those of a queue (`shard.told`), given as a cause; `connection_of` whose one of them is.
    """
    waits: dict[str, list[Facts]] = {}
    for session in held:
        if session["held_seconds"] >= seconds:
            queues = [cause for cause in session["causes"] if cause["kind"] == "queue" and cause["shard"] is not None]
            waits.setdefault(session["connection"], []).extend(queues)
    behind: dict[int, list[str]] = {}
    for cause in (cause for causes in waits.values() for cause in causes):
        if cause["id"] not in behind:
            behind[cause["id"]] = _stuck(consumers(cause), connection_of, waits, seconds)
    return _found(waits, behind)


def _stuck(
    consumers: list[Facts], connection_of: Callable[[Facts], str | None], waits: dict[str, list[Facts]], seconds: float
) -> list[str]:
    """The connections of a queue's consumers if none of these goes on, else nobody."""
    found = []
    for consumer in consumers:
        settled = consumer["settled_seconds"]
        connection = connection_of(consumer)
        if connection not in waits or not consumer["in_hand"] or (settled is not None and settled < seconds):
            return []
        found.append(connection)
    return found


def _found(waits: dict[str, list[Facts]], behind: dict[int, list[str]]) -> list[Circle]:
    """One circle for each set of connections that make one, found depth first."""
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
