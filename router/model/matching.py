"""The matching of messages and bindings: one kind of index per type of exchange (AMQP 0-9-1, 3.1.3).

An index follows the bindings of its exchange. It returns each destination once, however many bindings to it match.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from penstock.amqp.values import type_name
from router.model.delaying import DelayedIndex
from router.model.fields import Typed, shown, typed
from router.model.hashing import CONSISTENT_HASH, HashIndex, PropertyHashIndex, hash_index
from router.model.index import Headers, Index, LookupWalk, Properties, Walk, headers_of
from router.model.records import DELAYED_MESSAGE, Arguments, Binding, Destination, Exchange
from router.model.tally import Tally
from router.model.topics_cy import Memory, TopicIndex, Work


class FanoutIndex:
    """The index of a fanout exchange: every binding matches (3.1.3.2)."""

    def __init__(self) -> None:
        self._tally = Tally()

    def add(self, binding: Binding) -> None:
        self._tally.add(binding.target)

    def remove(self, binding: Binding) -> None:
        self._tally.remove(binding.target)

    def walk(self, routing_key: str, properties: Properties) -> Walk:
        return LookupWalk(self._tally)


class DirectIndex:
    """The index of a direct exchange: bindings whose key is the routing key match (3.1.3.1)."""

    def __init__(self) -> None:
        self._by_key: dict[str, Tally] = {}

    def add(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.key, Tally()).add(binding.target)

    def remove(self, binding: Binding) -> None:
        tally = self._by_key[binding.key]
        tally.remove(binding.target)
        if not tally:
            del self._by_key[binding.key]

    def walk(self, routing_key: str, properties: Properties) -> Walk:
        return LookupWalk(self._by_key.get(routing_key, ()))


Pair: TypeAlias = tuple[str, Typed | None]
"""A requirement of a headers binding: a header with a value, or with any value (None)."""


class HeadersPattern(NamedTuple):
    """The pairs that a headers binding asks for, and whether a message must have all of them or any."""

    match: Literal["all", "any"]
    wanted: frozenset[Pair]


class _WantedPair:
    """A pair that patterns ask for. `count` is the number of these patterns; `alone` the destinations of those that
    need no other pair (`any`); `needing` the patterns that need all their pairs and are found by this one.
    """

    __slots__ = ("alone", "count", "needing", "pair")

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.count = 0
        self.alone = Tally()
        self.needing: dict[frozenset[Pair], Tally] = {}


class HeadersIndex:
    """The index of a headers exchange: a binding matches if the headers have all of its arguments, or any, as its
    `x-match` says (3.1.3.4).

    An `any` pattern is found by each of its pairs; an `all` pattern by a single one, the pair by which the fewest other
    patterns were found when it was added. Complexity, for h headers and d destinations: O(h + c + d) with c patterns
    found by the message's pairs. These may be all patterns: a pair that every pattern asks for does not discriminate.
    """

    reads = ("headers",)

    def __init__(self) -> None:
        self._asked: dict[Pair, _WantedPair] = {}
        self._names: dict[str, int] = {}
        self._found_by: dict[frozenset[Pair], Pair] = {}
        self._always = Tally()

    def add(self, binding: Binding) -> None:
        pattern = headers_pattern(binding.arguments)
        for pair in pattern.wanted:
            self._count_pair(pair)
        # Sets that share their tuples compare them by identity, not by value.
        same = HeadersPattern(pattern.match, frozenset(self._asked[pair].pair for pair in pattern.wanted))
        for tally in self._tallies(same):
            tally.add(binding.target)

    def remove(self, binding: Binding) -> None:
        pattern = headers_pattern(binding.arguments)
        for tally in self._tallies(pattern):
            tally.remove(binding.target)
        if pattern.match == "all" and pattern.wanted:
            self._drop(pattern.wanted)
        for pair in pattern.wanted:
            self._uncount_pair(pair)

    def _count_pair(self, pair: Pair) -> None:
        asked = self._asked.setdefault(pair, _WantedPair(pair))
        asked.count += 1
        self._names[pair[0]] = self._names.get(pair[0], 0) + 1

    def _uncount_pair(self, pair: Pair) -> None:
        self._asked[pair].count -= 1
        if not self._asked[pair].count:
            del self._asked[pair]
        self._names[pair[0]] -= 1
        if not self._names[pair[0]]:
            del self._names[pair[0]]

    def _tallies(self, pattern: HeadersPattern) -> list[Tally]:
        """Return the tallies of the destinations of a pattern whose pairs are in `_asked`."""
        if pattern.match == "any":
            return [self._asked[pair].alone for pair in pattern.wanted]
        if not pattern.wanted:
            return [self._always]
        pair = self._found_by.get(pattern.wanted)
        if pair is None:
            pair = min(pattern.wanted, key=lambda each: len(self._asked[each].needing))
            self._found_by[pattern.wanted] = pair
        return [self._asked[pair].needing.setdefault(pattern.wanted, Tally())]

    def _drop(self, wanted: frozenset[Pair]) -> None:
        """Forget an `all` pattern if it has no destination left."""
        needing = self._asked[self._found_by[wanted]].needing
        if not needing[wanted]:
            del needing[wanted], self._found_by[wanted]

    def examining(self, properties: Properties) -> int:
        """Return the places that `traits` visits."""
        return len(headers_of(properties))

    def traits(self, properties: Properties) -> Collection[Pair]:
        """Return what a message's route depends on: its pairs that patterns ask for."""
        return frozenset(asked.pair for asked in self._asked_of(headers_of(properties)))

    def _asked_of(self, headers: Headers) -> Iterator[_WantedPair]:
        for name, value in headers.items():
            if name in self._names:
                for pair in ((name, None), (name, typed(value))):
                    if (asked := self._asked.get(pair)) is not None:
                        yield asked

    def walk(self, routing_key: str, properties: Properties) -> Walk:
        headers = headers_of(properties)
        return HeadersWalk(self._always, list(self._asked_of(headers)), len(headers))


class HeadersWalk:
    """The walk of one message through a headers index, by those of its pairs that patterns ask for."""

    __slots__ = ("_candidates", "_headers", "_pairs", "_reached", "found")

    def __init__(self, always: Tally, asked: list[_WantedPair], headers: int) -> None:
        self.found: Collection[Destination] | None = None
        self._headers = headers
        self._pairs = frozenset(each.pair for each in asked)
        self._reached = dict.fromkeys(always)
        self._candidates = (item for each in asked for item in ((None, each.alone), *each.needing.items()))

    def advance(self, work: Work) -> bool:
        work.spend(self._headers)
        self._headers = 0
        while self.found is None:
            if work.left <= 0:
                return False
            self._visit(work)
        return True

    def _visit(self, work: Work) -> None:
        """Check the next patterns that may match."""
        candidates = list(islice(self._candidates, AT_ONCE))
        for wanted, tally in candidates:
            if wanted is None or wanted <= self._pairs:
                self._reached.update(dict.fromkeys(tally))
                work.spend(len(tally))
        work.spend(len(candidates))
        if len(candidates) < AT_ONCE:
            self.found = self._reached


AT_ONCE = 256
"""The number of patterns checked between two checks of the remaining work."""


def headers_pattern(arguments: Arguments) -> HeadersPattern:
    """Return the pattern of a binding's arguments. ValueError, with RabbitMQ's text, for an invalid `x-match`.

    Names that begin with `x-` count only in the `-with-x` modes; a void value asks for the name alone.
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


PropertyIndex: TypeAlias = HeadersIndex | PropertyHashIndex | DelayedIndex
"""The indexes that look at those properties of a message that they `read`: messages with equal `traits` match the same
bindings.
"""


def keys_read(index: Index, keys: Sequence[str]) -> Sequence[str]:
    """Return those of a message's routing keys that an index looks at: a hash index at the first alone, since it sends
    a message to one destination.
    """
    routing = index.routing if isinstance(index, DelayedIndex) else index
    return keys[:1] if isinstance(routing, HashIndex) else keys


def index_of(exchange: Exchange, memory: Memory) -> Index:
    """Return the index of an exchange without bindings; a topic index remembers its states in the process's
    `Memory`.
    """
    index = INDEXES[exchange.routing_type](memory, exchange.arguments)
    if exchange.type != DELAYED_MESSAGE:
        return index
    return DelayedIndex(exchange.name, index, index if isinstance(index, PropertyIndex) else None)


INDEXES: dict[str, Callable[[Memory, Arguments], Index]] = {
    "direct": lambda memory, arguments: DirectIndex(),
    "fanout": lambda memory, arguments: FanoutIndex(),
    "topic": lambda memory, arguments: TopicIndex(memory),
    "headers": lambda memory, arguments: HeadersIndex(),
    CONSISTENT_HASH: lambda memory, arguments: hash_index(arguments),
}
"""The types by which exchanges route, each with its index by the arguments of the exchange."""

TYPES = (*INDEXES, DELAYED_MESSAGE)
"""The types of exchange."""
