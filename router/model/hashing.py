"""The index of a consistent hash exchange, as RabbitMQ's plugin has it: each message goes to one destination, chosen by
the hash of its routing key, or of a header or property. The key of a binding is its weight.

`router.model.rendezvous_cy` chooses. Hashes are those of names and values, so all processes agree, today and after a
restart. They do not depend on the exchange: exchanges with equal bindings send equal keys to the same destination.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from hashlib import blake2b

from router.model.fields import shown, typed
from router.model.records import Arguments, Binding, Destination
from router.model.rendezvous_cy import Rendezvous
from router.model.topics_cy import Work

CONSISTENT_HASH = "x-consistent-hash"
HASH_HEADER, HASH_PROPERTY = "hash-header", "hash-property"
"""The arguments of an exchange that hashes a header, or a property, in place of the routing key."""
PROPERTIES = ("correlation_id", "message_id", "timestamp")
"""The properties that an exchange may hash."""
AS_COSTLY = 8
"""Destinations that are compared in the time of visiting one place."""


class HashIndex:
    """The index of an exchange that hashes the routing key. Several bindings to one destination add their weights."""

    def __init__(self) -> None:
        self._weights: dict[Destination, int] = {}
        self._choice = Rendezvous()

    def add(self, binding: Binding) -> None:
        self._change(binding.target, weight_of(binding.key))

    def remove(self, binding: Binding) -> None:
        self._change(binding.target, -weight_of(binding.key))

    def _change(self, destination: Destination, by: int) -> None:
        weight = self._weights.get(destination, 0) + by
        if weight:
            self._weights[destination] = weight
            self._choice.put(destination, hash_of("\0".join(destination)), float(weight))
        else:
            del self._weights[destination]
            self._choice.remove(destination)

    def hashed(self, routing_key: str, properties: Mapping[str, object]) -> object:
        """Return the value that decides where a message goes; None if it has none."""
        return routing_key

    def choose(self, value: object) -> Collection[Destination]:
        """Return the destination for a value; none without bindings."""
        chosen = self._choice.choose(hash_of(value))
        return () if chosen is None else (chosen,)

    def cost(self) -> int:
        """Return the places that a choice costs."""
        return 1 + len(self._weights) // AS_COSTLY

    def walk(self, routing_key: str, properties: Mapping[str, object]) -> HashWalk:
        return HashWalk(self, self.hashed(routing_key, properties))


class PropertyHashIndex(HashIndex):
    """The index of an exchange that hashes one property; a `header` if that is "headers".

    All messages without that property or header go to the same destination.
    """

    def __init__(self, hashes: str, header: str = "") -> None:
        super().__init__()
        self.reads = (hashes,)
        self.header = header

    def hashed(self, routing_key: str, properties: Mapping[str, object]) -> object:
        (name,) = self.reads
        value = properties.get(name)
        if name == "headers":
            return value.get(self.header) if isinstance(value, Mapping) else None
        return value

    def examining(self, properties: Mapping[str, object]) -> int:
        """Return the places that `traits` visits."""
        return self.cost()

    def traits(self, properties: Mapping[str, object]) -> Collection[Destination]:
        """Return what a message's route depends on: where it goes from here, whatever its value."""
        return self.choose(self.hashed("", properties))


class HashWalk:
    """The walk of one message through a hash index: one choice, among the bindings there at that moment."""

    __slots__ = ("_index", "_value", "found")

    def __init__(self, index: HashIndex, value: object) -> None:
        self.found: Collection[Destination] | None = None
        self._index = index
        self._value = value

    def advance(self, work: Work) -> bool:
        if self.found is None:
            if work.left <= 0:
                return False
            work.spend(self._index.cost())
            self.found = self._index.choose(self._value)
        return True


def hash_index(arguments: Arguments) -> HashIndex:
    """Return the index of an exchange with these valid arguments."""
    if HASH_HEADER in arguments:
        return PropertyHashIndex("headers", arguments[HASH_HEADER])
    if HASH_PROPERTY in arguments:
        return PropertyHashIndex(arguments[HASH_PROPERTY])
    return HashIndex()


def check_hashed(arguments: Arguments) -> None:
    """ValueError, with RabbitMQ's text, unless the arguments of an exchange say what it hashes."""
    for name in (HASH_HEADER, HASH_PROPERTY):
        if name in arguments and not isinstance(arguments[name], str):
            raise ValueError(f"{name} must be a string, not {shown(arguments[name])}")
    if HASH_HEADER in arguments and HASH_PROPERTY in arguments:
        raise ValueError(f"{HASH_HEADER} and {HASH_PROPERTY} are mutually exclusive")
    if HASH_PROPERTY in arguments and arguments[HASH_PROPERTY] not in PROPERTIES:
        raise ValueError(f"Unsupported property: {arguments[HASH_PROPERTY]}")


def weight_of(key: str) -> int:
    """Return the weight that the key of a binding gives. ValueError, with RabbitMQ's text, unless that is an integer
    above 0.
    """
    if re.fullmatch("[+-]?[0-9]+", key) is None:
        printed = f'<<"{key}">>' if key else "<<>>"
        raise ValueError(f"The binding key must be an integer: {printed}")
    weight = int(key)
    if weight < 1:
        raise ValueError("The binding key must be greater than 0")
    return weight


def hash_of(value: object) -> int:
    """Return the hash, of 64 bits, of a value of a field table. Texts and numbers that are written alike have the same,
    and so does a value of any width.
    """
    return int.from_bytes(blake2b(_bytes_of(value), digest_size=8).digest(), "big")


def _bytes_of(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return b"%d" % value
    return repr(_ordered(value)).encode("utf-8", "surrogateescape")


def _ordered(value: object) -> object:
    """Return a value in a form that is always printed alike: fields of tables by name."""
    if isinstance(value, Mapping):
        return sorted((name, _ordered(inner)) for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return [_ordered(inner) for inner in value]
    return typed(value)
