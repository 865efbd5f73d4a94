"""The index of an exchange: its bindings, found by the routing keys and properties of messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, TypeAlias

from router.model.records import Binding, Destination
from router.model.topics_cy import Work

Headers: TypeAlias = Mapping[str, object]

Properties: TypeAlias = Mapping[str, object]
"""Properties of a message by name (`penstock.amqp.properties`); at least those that the index `reads`."""


class Walk(Protocol):
    """The walk of one message through an index. Bindings may change meanwhile; those there throughout are found."""

    @property
    def found(self) -> Collection[Destination] | None:
        """The destinations; None until all are found."""
        ...

    def advance(self, work: Work) -> bool:
        """Find destinations as long as work remains; whether all are `found`."""
        ...


class Index(Protocol):
    """The bindings of one exchange."""

    def add(self, binding: Binding) -> None:
        """Add a binding that is not there."""
        ...

    def remove(self, binding: Binding) -> None:
        """Remove a binding that is there."""
        ...

    def walk(self, routing_key: str, properties: Properties) -> Walk:
        """Begin the walk of a message."""
        ...


class ExaminingIndex(Index, Protocol):
    """An index that looks at properties of messages."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The properties that it looks at."""
        ...

    def examining(self, properties: Properties) -> int:
        """Return the places that `traits` visits."""
        ...

    def traits(self, properties: Properties) -> Collection[object]:
        """Return what a message's route depends on beside its routing keys."""
        ...


def match(index: Index, routing_key: str, properties: Properties) -> Collection[Destination]:
    """Return all destinations at once, whatever the cost."""
    walk = index.walk(routing_key, properties)
    walk.advance(Work())
    assert walk.found is not None
    return walk.found


class LookupWalk:
    """The walk through an index that finds all destinations by one lookup."""

    __slots__ = ("found",)

    def __init__(self, found: Collection[Destination]) -> None:
        self.found: Collection[Destination] | None = found

    def advance(self, work: Work) -> bool:
        return True


def headers_of(properties: Properties) -> Headers:
    """Return the headers among a message's properties; empty if it has none."""
    headers = properties.get("headers", {})
    assert isinstance(headers, Mapping)
    return headers
