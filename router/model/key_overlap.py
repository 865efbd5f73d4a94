"""Whether one routing key can match several patterns: a policy's, and those of the bindings on the way.

`common_key` walks through all patterns together, character by character, and returns such a key. Topic patterns are
those of `router.model.topics_cy`; a policy's pattern is one of `penstock.text.patterns`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from penstock.text.automata import LAST, Automaton, States, Undecided
from penstock.text.patterns import Pattern, pattern
from router.model.records import Binding
from router.model.topics_cy import words_of

STEPS_MAX = 300
"""Steps after which a walk gives up: clients choose the patterns, and no pattern may take long."""

Place: TypeAlias = tuple[int, int]
"""In a topic pattern: the index of a word and the number of its characters passed; in a `#`, 1 within a word."""
Places: TypeAlias = frozenset[Place]


class Keys(NamedTuple):
    """The routing keys that messages may have: those that a policy's pattern and some topic patterns match, or `exact`.

    Any key if the policy has no pattern (`wanted` is "").
    """

    wanted: str
    topics: tuple[str, ...] = ()
    exact: str | None = None

    def through(self, binding: Binding, exchange_type: str) -> Keys | None:
        """Return those of the keys that match a binding, None if none does. Exchanges of other types match any."""
        if not self.wanted or exchange_type not in ("direct", "topic"):
            return self
        if exchange_type == "direct" or {"*", "#"}.isdisjoint(words_of(binding.key)):
            return Keys(self.wanted, exact=binding.key) if self.has(binding.key) else None
        if self.exact is not None:
            return self if Topic(binding.key).matches(self.exact) else None
        topics = tuple(sorted({*self.topics, binding.key}))
        return Keys(self.wanted, topics) if may_share_key(self.wanted, topics) else None

    def has(self, key: str) -> bool:
        """Whether a key is among them."""
        if self.exact is not None:
            return key == self.exact
        return pattern(self.wanted).matches(key) and all(Topic(topic).matches(key) for topic in self.topics)


@lru_cache(maxsize=1 << 16)
def may_share_key(wanted: str, topics: tuple[str, ...]) -> bool:
    """Whether some key matches a policy's pattern and all the topic patterns; True if that cannot be decided."""
    try:
        return common_key(wanted, topics) is not None
    except Undecided:
        return True


def common_key(wanted: str, topics: Sequence[str]) -> str | None:
    """Return a key that matches a policy's pattern and all the topic patterns; None if there is none.

    Undecided if the walk would be too long, or an expression is beyond `penstock.text.automata`.
    """
    policy, parts = _policy(wanted), [Topic(key) for key in topics]
    distinct = policy.characters.union(*(part.characters for part in parts))
    place, steps = (policy.start, tuple(part.start for part in parts)), 0
    waiting, seen = [(place, "")], {place}
    while waiting:
        (states, places), key = waiting.pop()
        ends = all(part.accepts(at, not key) for part, at in zip(parts, places, strict=True))
        if ends and policy.accepts(states, not key):
            return key
        # Where a pattern names the characters that may follow, no other character leads on.
        said = [said for part, at in zip(parts, places, strict=True) if (said := part.next_characters(at)) is not None]
        for character in set.intersection(*said) if said else distinct:
            moved = tuple(part.step(at, character) for part, at in zip(parts, places, strict=True))
            place, steps = (policy.step(states, character), moved), steps + 1
            if all(moved) and place not in seen:
                seen.add(place)
                waiting.append((place, key + character))
        if steps > STEPS_MAX:
            raise Undecided(f"'{wanted}' and {', '.join(topics)}")
    return None


class PolicyKeys:
    """The pattern of a policy as automata: of expressions that must be found in a key, or must not."""

    def __init__(self, wanted: Pattern) -> None:
        self.parts = [(Automaton(text), found) for text, found in wanted.expressions()]
        self.start = tuple(part.start for part, _ in self.parts)
        points = {0, ord("."), ord(".") + 1, *(point for part, _ in self.parts for point in part.characters())}
        self.characters = frozenset(chr(point) for point in points if point <= LAST)

    def step(self, states: tuple[States, ...], character: str) -> tuple[States, ...]:
        """Return the states after one more character."""
        return tuple(part.step(each, character) for (part, _), each in zip(self.parts, states, strict=True))

    def accepts(self, states: tuple[States, ...], empty: bool) -> bool:
        """Whether a key that ends in these states matches. `empty`: it has no characters."""
        pairs = zip(self.parts, states, strict=True)
        return all(part.is_found(each, empty) == wanted for (part, wanted), each in pairs)


@lru_cache(maxsize=256)
def _policy(wanted: str) -> PolicyKeys:
    return PolicyKeys(pattern(wanted))


class Topic:
    """A topic pattern read character by character: each word of a key ends with a dot, the last one with the key."""

    def __init__(self, key: str) -> None:
        self.words = words_of(key)
        self.start = self._reach((0, 0))
        self.characters = frozenset(key) - {"*", "#"} | {"."}

    def _reach(self, place: Place) -> Places:
        """Return a place with the places behind each `#` there that may stand for no more words."""
        index, far = place
        found = {place}
        while far == 0 and index < len(self.words) and self.words[index] == "#":
            index += 1
            found.add((index, 0))
        return frozenset(found)

    def next_characters(self, places: Places) -> set[str] | None:
        """Return the characters that lead on; None if any does, perhaps to different places."""
        found = set()
        for index, far in places:
            if index == len(self.words):
                continue
            word = self.words[index]
            if word in ("*", "#"):
                return None
            found.add(word[far] if far < len(word) else ".")
        return found

    def step(self, places: Places, character: str) -> Places:
        """Return the places after one more character."""
        found: set[Place] = set()
        for index, far in places:
            if index < len(self.words):
                found |= self._step(index, far, character)
        return frozenset(found)

    def _step(self, index: int, far: int, character: str) -> Places:
        word, ends = self.words[index], character == "."
        if word == "#":
            return self._reach((index, 0)) if ends else frozenset(((index, 1),))
        if word == "*":
            return self._reach((index + 1, 0)) if ends else frozenset(((index, 0),))
        if far == len(word):
            return self._reach((index + 1, 0)) if ends else frozenset()
        return frozenset(((index, far + 1),)) if word[far] == character else frozenset()

    def matches(self, key: str) -> bool:
        places = self.start
        for character in key:
            places = self.step(places, character)
        return self.accepts(places, not key)

    def accepts(self, places: Places, empty: bool) -> bool:
        """Whether a key that ends at these places matches. An empty key has no words."""
        return (len(self.words), 0) in (places if empty else self.step(places, "."))
