# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Topic patterns: `*` stands for one word, `#` for none or more (AMQP 0-9-1, 3.1.3.3).

The words of all patterns form a tree. A key is at several places of the tree at once; this set of places is the state
of an automaton. Invariant: after the first i words of a key, its places are exactly those whose paths from the root
match these words. So a pattern matches if its last place is among them after the last word. The next state depends only
on the present one and the next word, and all words that occur in no pattern lead to the same state. States are made
when a key first reaches them and remembered, with their steps and with the destinations of keys that end there.

Complexity, for a key of w words, a tree of p places and d destinations: O(w + d) where its states are remembered, else
O(w p + d), whatever the patterns: several `#` do not multiply. There may be 2^p states, so `Memory` bounds what all
indexes of a process remember; a forgotten state is made again. A walk can pause at any place (`Work`): it continues
after any change of the tree and finds each destination whose binding existed throughout.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from router.model.records import Binding, Destination
from router.model.tally import Tally

REMEMBERED = 1 << 16
"""The number of places, steps and destinations that a process remembers in states: some 5 MiB."""
UNLIMITED = 1 << 62
# The memory of a state and of a step, in places.
STATE = 8
STEP = 2


class Work:
    """The cost of matching, in places visited or as costly: so far (`visited`), and until it pauses (`left`)."""

    def __init__(self, left: int = UNLIMITED) -> None:
        self.left = left
        self.visited = 0

    def spend(self, places: int) -> None:
        """Charge a number of places."""
        self.left -= places
        self.visited += places


class Memory:
    """Room for the states of all indexes, in places. When it is used up, the indexes with the most forget theirs."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self.limit = limit
        self.used = 0
        self.holders: dict[TopicIndex, None] = {}

    def reserve(self, index: TopicIndex, places: int) -> bool:
        """Take room for an index; False if it asks for too much to be remembered at all."""
        if 4 * places >= self.limit:
            return False
        if self.used + places > self.limit:
            self.make_room()
        self.used += places
        index.kept += places
        self.holders[index] = None
        return True

    def make_room(self) -> None:
        """Have the largest indexes forget their states until half of the room is free."""
        for index in sorted(self.holders, key=attrgetter("kept"), reverse=True):
            if 2 * self.used <= self.limit:
                return
            index.forget()

    def give_back(self, index: TopicIndex) -> None:
        """Release all the room of an index."""
        self.used -= index.kept
        index.kept = 0
        self.holders.pop(index, None)


class Place:
    """A place in the tree: all patterns that begin with the words on the path to it. `words`, `one` and `more` are the
    next places, by a word, `*` and `#`; a place reached by `#` `repeats`.
    """

    def __init__(self, repeats: bool = False) -> None:
        self.repeats = repeats
        self.words: dict[str, Place] = {}
        self.one: Place | None = None
        self.more: Place | None = None
        self.tally = Tally()

    def next(self, word: str) -> Place | None:
        """Return the next place by a word of a pattern, None if there is none."""
        if word == "*":
            return self.one
        return self.more if word == "#" else self.words.get(word)

    def is_bare(self) -> bool:
        """Whether no pattern ends or continues here."""
        return not self.tally and not self.words and self.one is None and self.more is None


class State:
    """A set of places, with the next states by word (None: any word that no pattern has) and the destinations `found`
    by keys that end here.
    """

    def __init__(self, places: frozenset[Place], generation: int) -> None:
        self.places = places
        self.generation = generation
        self.steps: dict[str | None, State] = {}
        self.found: dict[Destination, Any] | None = None


class TopicIndex:
    """The bindings of one topic exchange. States belong to a `generation`, which changes with the tree."""

    def __init__(self, memory: Memory) -> None:
        self.root = Place()
        self.known: dict[str, int] = {}
        self.memory = memory
        self.generation = 0
        self.states: dict[frozenset[Place], State] = {}
        self.kept = 0

    def add(self, binding: Binding) -> None:
        place = self.root
        for word in words_of(binding.key):
            following = place.next(word)
            place = self.grow(place, word) if following is None else following
        place.tally.add(binding.target)
        self.forget()

    def remove(self, binding: Binding) -> None:
        way: list[tuple[Place, str]] = []
        place = self.root
        for word in words_of(binding.key):
            way.append((place, word))
            following = place.next(word)
            assert following is not None
            place = following
        place.tally.remove(binding.target)
        for before, word in reversed(way):
            if not place.is_bare():
                break
            self.prune(before, word)
            place = before
        self.forget()

    def grow(self, place: Place, word: str) -> Place:
        """Add the place that follows another one by a word, and return it."""
        new = Place(word == "#")
        if word == "*":
            place.one = new
        elif word == "#":
            place.more = new
        else:
            place.words[word] = new
            self.known[word] = self.known.get(word, 0) + 1
        return new

    def prune(self, place: Place, word: str) -> None:
        """Remove the place that follows another one by a word."""
        if word == "*":
            place.one = None
        elif word == "#":
            place.more = None
        else:
            del place.words[word]
            self.known[word] -= 1
            if not self.known[word]:
                del self.known[word]

    def walk(self, routing_key: str, headers: object = None) -> TopicWalk:
        return TopicWalk(self, words_of(routing_key))

    def forget(self) -> None:
        """Forget all states."""
        if self.states:
            for state in self.states.values():
                state.steps.clear()  # states lead to each other
            self.states = {}
            self.generation += 1
            self.memory.give_back(self)

    def first(self) -> State:
        """Return the state before the first word. Without bindings it is not kept: the exchange may be gone."""
        if self.root.is_bare():
            return State(frozenset(), -1)
        reached: dict[Place, None] = {}
        enter(reached, self.root)
        return self.state_of(frozenset(reached))

    def current(self, state: State) -> State:
        """Return the state of the same places in the present generation."""
        return state if state.generation == self.generation else self.state_of(state.places)

    def state_of(self, places: frozenset[Place]) -> State:
        """Return the state of these places; if there is no room to remember it, one of generation -1."""
        state = self.states.get(places)
        if state is None:
            if self.memory.reserve(self, len(places) + STATE):
                state = self.states[places] = State(places, self.generation)
            else:
                state = State(places, -1)
        return state


class TopicWalk:
    """The walk of one key through an index, in the state after `at` of its words. `places` are those of the state that
    are still to be visited, for the places `reached` by the next word, or the destinations after the last.
    """

    def __init__(self, index: TopicIndex, words: list[str]) -> None:
        self.index = index
        self.words = words
        self.at = 0
        self.state = self.index.first()
        self.word: str | None = None
        self.places: Iterator[Place] | None = None
        self.reached: dict[Any, Any] = {}
        self.found: dict[Destination, Any] | None = None if self.state.places else {}

    def advance(self, work: Work) -> bool:
        """Find destinations as long as work remains; whether all are `found`."""
        while self.found is None:
            if work.left <= 0:
                return False
            if self.places is None:
                self.step(work)
            elif self.at < len(self.words):
                self.visit(work)
            else:
                self.gather(work)
        return True

    def step(self, work: Work) -> None:
        """Take the next step if it is remembered, else begin to make it."""
        work.left -= 1
        work.visited += 1
        state = self.state = self.index.current(self.state)
        if self.at == len(self.words):
            if state.found is not None:
                self.found = state.found
                return
        else:
            word = self.words[self.at]
            self.word = word if word in self.index.known else None
            following = state.steps.get(self.word)
            if following is not None:
                self.state = following
                self.at += 1
                return
        self.reached = {}
        self.places = iter(state.places)

    def visit(self, work: Work) -> None:
        """Visit places for those that the next word leads to."""
        left = work.left
        visited = 0
        word = self.word
        reached = self.reached
        assert self.places is not None
        for place in self.places:
            visited += 1
            if place.repeats:
                enter(reached, place)
            if word is not None:
                child = place.words.get(word)
                if child is not None:
                    enter(reached, child)
            if place.one is not None:
                enter(reached, place.one)
            if visited >= left:
                break
        else:
            self.arrive()
        work.left = left - visited
        work.visited += visited

    def arrive(self) -> None:
        """Enter the next state, once all its places are reached."""
        index = self.index
        following = index.state_of(frozenset(self.reached))
        kept = following.generation == index.generation and index.memory.reserve(index, STEP)
        if kept and self.state.generation == index.generation:
            self.state.steps[self.word] = following
        self.state = following
        self.at += 1
        self.places = None

    def gather(self, work: Work) -> None:
        """Collect the destinations of the patterns that end here."""
        left = work.left
        visited = 0
        assert self.places is not None
        for place in self.places:
            visited += 1
            if place.tally:
                self.reached.update(place.tally)
                visited += len(place.tally)
            if visited >= left:
                break
        else:
            index = self.index
            self.found = self.reached
            if index.memory.reserve(index, len(self.found)) and self.state.generation == index.generation:
                self.state.found = self.found
        work.left = left - visited
        work.visited += visited


def words_of(key: str) -> list[str]:
    """Return the words of a key between its dots. An empty key has none; empty words between dots count."""
    return key.split(".") if key else []


def enter(reached: dict[Place, None], place: Place | None) -> None:
    """Add a place, and the places that follow it without a word."""
    while place is not None and place not in reached:
        reached[place] = None
        place = place.more
