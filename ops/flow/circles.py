"""Waiting without end at full queues: in circles, and at a queue that has nothing more for its consumers.

A queue that holds a connection waits for its consumers only if none of them goes on: each has something in hand and has
settled nothing for a while, and its own connection is held for as long; or, if that is not held, another one of the
same party (user and host): most programs consume and publish on two. Where such a chain comes back to a connection
nobody in it will ever go on by himself, if all of them settle only when what they publish has gone.

Where every consumer of every queue of a circle is on a connection that waits in it itself, and the queues are two or
more, the circle is a *ring*: it takes only as long as is needed to see that nobody in it goes on.

Of a party one may wait for the very queue that another consumes. Mostly that is a producer beside a consumer that is
slow for once, so for that it takes longest.

A *lock-out* is a full queue whose consumers have all of it in hand, could be sent more, and have neither got nor
settled anything for a while: they settle in batches of more than it may hold.

How long that while is depends on the consumer: many times as long as it usually takes, so that a slow one is not taken
for one that waits; the time of the setting for one that has not settled often enough to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Facts = dict[str, Any]

SOON, AGAIN = 10, 50
"""A circle may be found after this part of the time, among consumers that are quick: at first, and soon after another.
A ring may be after the latter, and among consumers of which nobody knows how quick they are after the former.
"""
USUAL = 20
"""A consumer does not go on when it has settled nothing for so many times its usual time."""


class Times(NamedTuple):
    """After how many seconds consumers do not go on: quick ones, and those of which nobody knows how quick they are."""

    least: float
    most: float


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


class Lockout(NamedTuple):
    """A queue that is full of what its consumers have in hand."""

    queue: Facts

    def __str__(self) -> str:
        return f"queue '{self.queue['name']}' is full of what its consumers have in hand, and they wait for more"

    @property
    def key(self) -> frozenset[str]:
        return frozenset((f"queue {self.queue['id']}",))

    @property
    def queues(self) -> tuple[Facts, ...]:
        return (self.queue,)


def lockouts(
    held: Iterable[Facts], consumers: Callable[[Facts], list[Facts]], still: Callable[[Facts], bool], times: Times
) -> list[Lockout]:
    """The queues that lock out their consumers, among those that somebody has waited for.

    `still` tells of one whether it has nothing ready, and has delivered and got back nothing since the last look. Where
    a consumer's connection has been held for a short time itself, it may turn out to be in a circle.
    """
    held = list(held)
    waits = _waits(held, times.least)
    waited_for = {cause["id"]: cause for causes in waits.values() for cause in causes}
    longest = _longest(held)
    held_lately = {session["connection"] for session in held if session["held_seconds"] < times.most}
    return [
        Lockout(cause)
        for id, cause in waited_for.items()
        if still(cause)
        and _could_take_more(consumers(cause), longest[id], times)
        and not any(consumer["connection"] in held_lately for consumer in consumers(cause))
    ]


def _could_take_more(consumers: list[Facts], waited: float, times: Times) -> bool:
    """Whether none of a queue's consumers goes on, and one waits for more than it has."""
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
    """The circles among those who are held (`acceptor.told`).

    `consumers` tells those of a queue (`shard.questions`), given as a cause; `connection_of` whose one of them is.
    """
    held = list(held)
    waits, longest = _waits(held, times.least), _longest(held)
    parties: dict[str, dict[str, None]] = {}
    for session in held:
        if session["connection"] in waits and session.get("party"):
            parties.setdefault(session["party"], {})[session["connection"]] = None
    behind: dict[int, list[str]] = {}
    for cause in (cause for causes in waits.values() for cause in causes):
        if cause["id"] not in behind:
            told = consumers(cause)
            waited = longest[cause["id"]]
            if all(is_stuck(consumer, waited, times) for consumer in told):
                long = all(is_stuck(consumer, waited, Times(times.most, times.most)) for consumer in told)
                behind[cause["id"]] = _behind(cause, told, connection_of, waits, parties, long)
            else:
                behind[cause["id"]] = []
    return _found(waits, behind)


def rings(
    held: Iterable[Facts], consumers: Callable[[Facts], list[Facts]], connection_of: Callable[[Facts], str | None],
    times: Times,
) -> list[Circle]:  # fmt: skip
    """The rings among those who are held, given like `circles`."""
    alone = [{**session, "party": None} for session in held if session["settles"]]
    found = circles(alone, consumers, connection_of, times)
    return [circle for circle in found if len({queue["id"] for queue in circle.queues}) > 1]


def _waits(held: Iterable[Facts], least: float) -> dict[str, list[Facts]]:
    """The queues that each connection has waited for long enough."""
    waits: dict[str, list[Facts]] = {}
    for session in held:
        if session["held_seconds"] >= least:
            queues = [cause for cause in session["causes"] if cause["kind"] == "queue" and cause["shard"] is not None]
            waits.setdefault(session["connection"], []).extend(queues)
    return waits


def _longest(held: Iterable[Facts]) -> dict[int, float]:
    """For how long somebody has been held who waits for a queue, in seconds, by its id."""
    longest: dict[int, float] = {}
    for session in held:
        for cause in session["causes"]:
            if cause["kind"] == "queue":
                longest[cause["id"]] = max(longest.get(cause["id"], 0.0), session["held_seconds"])
    return longest


def is_stuck(consumer: Facts, waited: float, times: Times) -> bool:
    """Whether a consumer has something in hand and does not settle it; its queue has been `waited` for so long."""
    if not consumer["in_hand"]:
        return False
    settled, usual = consumer["settled_seconds"], consumer["usual_seconds"]
    if usual is None:
        return waited >= times.most and (settled is None or settled >= times.most)
    return waited >= times.least and settled >= max(USUAL * usual, times.least)


def _behind(
    cause: Facts, consumers: list[Facts], connection_of: Callable[[Facts], str | None], waits: dict[str, list[Facts]],
    parties: dict[str, dict[str, None]], long: bool,
) -> list[str]:  # fmt: skip
    """The connections that a queue's consumers wait for, if all of them wait for one, else nobody. `long`: it has been
    long enough for those of its party to be among them that wait for nothing but this queue.
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
