"""Which destinations of an exchange match a message: one index a type of exchange (AMQP 0-9-1, 3.1.3).

An index is told of bindings as they come and go. It answers with each destination once, however many of its bindings
match.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

from penstock.amqp.values import type_name
from router.fields import Typed, shown, typed
from router.records import Arguments, Binding, Destination

Headers: TypeAlias = Mapping[str, object]


class Index(Protocol):
    """The bindings of one exchange."""

    def add(self, binding: Binding) -> None: ...

    def remove(self, binding: Binding) -> None: ...

    def match(self, routing_key: str, headers: Headers) -> Collection[Destination]: ...


class Tally(dict[Destination, int]):
    """Destinations, and how many bindings lead to each."""

    def add(self, destination: Destination) -> None:
        self[destination] = self.get(destination, 0) + 1

    def remove(self, destination: Destination) -> None:
        if self[destination] == 1:
            del self[destination]
        else:
            self[destination] -= 1


class FanoutIndex:
    """Every binding matches (3.1.3.2)."""

    def __init__(self) -> None:
        self._tally = Tally()

    def add(self, binding: Binding) -> None:
        self._tally.add(binding.target)

    def remove(self, binding: Binding) -> None:
        self._tally.remove(binding.target)

    def match(self, routing_key: str, headers: Headers) -> Collection[Destination]:
        return self._tally


class DirectIndex:
    """Bindings whose key is the routing key match (3.1.3.1)."""

    def __init__(self) -> None:
        self._by_key: dict[str, Tally] = {}

    def add(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.key, Tally()).add(binding.target)

    def remove(self, binding: Binding) -> None:
        tally = self._by_key[binding.key]
        tally.remove(binding.target)
        if not tally:
            del self._by_key[binding.key]

    def match(self, routing_key: str, headers: Headers) -> Collection[Destination]:
        return self._by_key.get(routing_key, ())


class _Word:
    """A place in the tree of topic patterns: all patterns that begin with the words on the way to it."""

    __slots__ = ("repeats", "tally", "words")

    def __init__(self, repeats: bool = False) -> None:
        self.repeats = repeats
        self.words: dict[str, _Word] = {}
        self.tally = Tally()


class TopicIndex:
    """Patterns of words: `*` stands for one word, `#` for none or more (3.1.3.3).

    A tree of the patterns' words, walked by all that may still match at once: the work grows with the words of the key
    and the places reached, not with the bindings, and no pattern makes it explode.
    """

    def __init__(self) -> None:
        self._root = _Word()

    def add(self, binding: Binding) -> None:
        place = self._root
        for word in words_of(binding.key):
            place = place.words.setdefault(word, _Word(word == "#"))
        place.tally.add(binding.target)

    def remove(self, binding: Binding) -> None:
        way = [self._root]
        words = words_of(binding.key)
        for word in words:
            way.append(way[-1].words[word])
        way[-1].tally.remove(binding.target)
        while words and not way[-1].tally and not way[-1].words:
            way.pop()
            del way[-1].words[words.pop()]

    def match(self, routing_key: str, headers: Headers) -> Collection[Destination]:
        places: dict[_Word, None] = {}
        _enter(places, self._root)
        for word in words_of(routing_key):
            reached: dict[_Word, None] = {}
            for place in places:
                if place.repeats:
                    _enter(reached, place)
                for child in (place.words.get(word), place.words.get("*")):
                    if child is not None:
                        _enter(reached, child)
            places = reached
        return {destination: None for place in places for destination in place.tally}


def words_of(key: str) -> list[str]:
    """The words between dots. An empty key has none; empty words between dots count."""
    return key.split(".") if key else []


def _enter(places: dict[_Word, None], place: _Word | None) -> None:
    """Be at a place, and at those that follow it without a word."""
    while place is not None and place not in places:
        places[place] = None
        place = place.words.get("#")


class HeadersPattern(NamedTuple):
    """What a binding of a headers exchange asks for. A value of None stands for any value."""

    match: Literal["all", "any"]
    wanted: frozenset[tuple[str, Typed | None]]

    def matches(self, headers: Mapping[str, Typed]) -> bool:
        found = (name in headers and value in (None, headers[name]) for name, value in self.wanted)
        return all(found) if self.match == "all" else any(found)


class HeadersIndex:
    """Bindings whose arguments the headers hold match: `x-match` says whether all of them must, or any (3.1.3.4)."""

    def __init__(self) -> None:
        self._patterns: dict[HeadersPattern, Tally] = {}

    def add(self, binding: Binding) -> None:
        self._patterns.setdefault(headers_pattern(binding.arguments), Tally()).add(binding.target)

    def remove(self, binding: Binding) -> None:
        pattern = headers_pattern(binding.arguments)
        tally = self._patterns[pattern]
        tally.remove(binding.target)
        if not tally:
            del self._patterns[pattern]

    def match(self, routing_key: str, headers: Headers) -> Collection[Destination]:
        present = {name: typed(value) for name, value in headers.items()}
        matching = (tally for pattern, tally in self._patterns.items() if pattern.matches(present))
        return {destination: None for tally in matching for destination in tally}


def headers_pattern(arguments: Arguments) -> HeadersPattern:
    """The pattern of a binding's arguments. ValueError, its text RabbitMQ's, if `x-match` has no meaning.

    Names that begin with `x-` count only in the modes that say so; a void value asks for the name alone.
    """
    mode = arguments.get("x-match", "all")
    if not isinstance(mode, str):
        kind, value = type_name(mode), shown(mode)
        raise ValueError(f"Invalid x-match field type {kind} (value {value}); expected longstr")
    if mode not in ("all", "any", "all-with-x", "any-with-x"):
        value = f'<<"{mode}">>' if mode else "<<>>"
        raise ValueError(f"Invalid x-match field value {value}; expected all, any, all-with-x, or any-with-x")
    every = mode.endswith("-with-x")
    wanted = frozenset(
        (name, None if value is None else typed(value))
        for name, value in arguments.items()
        if name != "x-match" and (every or not name.startswith("x-"))
    )
    return HeadersPattern("all" if mode.startswith("all") else "any", wanted)


INDEXES: dict[str, Callable[[], Index]] = {
    "direct": DirectIndex,
    "fanout": FanoutIndex,
    "topic": TopicIndex,
    "headers": HeadersIndex,
}
"""The types of exchange there are."""
