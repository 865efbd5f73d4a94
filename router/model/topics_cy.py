# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Topic patterns: `*` stands for one word, `#` for none or more (AMQP 0-9-1, 3.1.3.3).

The words of all patterns make a tree. A key is at several of its places at once, and they are an automaton's state.
Invariant: behind the first i words of a key they are exactly the places whose ways from the root match these words, so
a pattern matches where its last place is among them behind the last word. The next state depends on this one and the
next word alone, and words that no pattern has are one to it. So states are made when a key first comes to them, and
remembered with their steps and with the destinations of a key that ends there.

Complexity, for a key of w words, a tree of p places and d destinations: O(w + d) where its states are remembered, else
O(w p + d), whatever the patterns: several `#` do not multiply. There may be 2^p states, so what all indexes of a
process remember is bounded (`Memory`), and what is forgotten is made again. A walk can pause at any place (`Work`): it
goes on after any changes of the tree, and finds each destination whose binding was there all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from router.model.records import Binding, Destination
from router.model.tally import Tally

REMEMBERED = 1 << 16
"""How many places, steps and destinations a process remembers in states: some 5 MiB."""
UNLIMITED = 1 << 62
# What a state and a step take, in places.
STATE = 8
STEP = 2


class Work:
    """What matching has cost (`visited`), and may cost before it pauses (`left`): places looked at, or as much."""

    def __init__(self, left: int = UNLIMITED) -> None:
        self.left = left
        self.visited = 0

    def spend(self, places: int) -> None:
        self.left -= places
        self.visited += places


class Memory:
    """Room for what indexes remember, in places. When it is used up, those forget who have most of it."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self.limit = limit
        self.used = 0
        self.holders: dict[TopicIndex, None] = {}

    def take(self, index: TopicIndex, places: int) -> bool:
        """Room for so much more; False where that is too much to be remembered at all."""
        if 4 * places >= self.limit:
            return False
        if self.used + places > self.limit:
            self.make_room()
        self.used += places
        index.kept += places
        self.holders[index] = None
        return True

    def make_room(self) -> None:
        for index in sorted(self.holders, key=attrgetter("kept"), reverse=True):
            if 2 * self.used <= self.limit:
                return
            index.forget()

    def give_back(self, index: TopicIndex) -> None:
        self.used -= index.kept
        index.kept = 0
        self.holders.pop(index, None)


class Place:
    """A place in the tree: all patterns that begin with the words on the way to it. `one` follows by `*`, `more` by
    `#`; where it is such a one itself, it `repeats`.
    """

    def __init__(self, repeats: bool = False) -> None:
        self.repeats = repeats
        self.words: dict[str, Place] = {}
        self.one: Place | None = None
        self.more: Place | None = None
        self.tally = Tally()

    def next(self, word: str) -> Place | None:
        """What follows by a word of a pattern."""
        if word == "*":
            return self.one
        return self.more if word == "#" else self.words.get(word)

    def is_bare(self) -> bool:
        """Whether no pattern ends here or goes on."""
        return not self.tally and not self.words and self.one is None and self.more is None


class State:
    """A set of places, the states that follow by words (None: by any that no pattern has), and what is `found` by keys
    that end here.
    """

    def __init__(self, places: frozenset[Place], generation: int) -> None:
        self.places = places
        self.generation = generation
        self.steps: dict[str | None, State] = {}
        self.found: dict[Destination, Any] | None = None


class TopicIndex:
    """The bindings of one topic exchange. States are those of a `generation`: it changes with the tree."""

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
        """No state is remembered any more."""
        if self.states:
            for state in self.states.values():
                state.steps.clear()  # states lead to each other
            self.states = {}
            self.generation += 1
            self.memory.give_back(self)

    def first(self) -> State:
        """The state of a key before its first word. Without bindings none is kept: the exchange may be gone."""
        if self.root.is_bare():
            return State(frozenset(), -1)
        reached: dict[Place, None] = {}
        enter(reached, self.root)
        return self.state_of(frozenset(reached))

    def current(self, state: State) -> State:
        """The state of the same places by the tree of now."""
        return state if state.generation == self.generation else self.state_of(state.places)

    def state_of(self, places: frozenset[Place]) -> State:
        state = self.states.get(places)
        if state is None:
            if self.memory.take(self, len(places) + STATE):
                state = self.states[places] = State(places, self.generation)
            else:
                state = State(places, -1)
        return state


class TopicWalk:
    """The way of one key through an index: in a state behind `at` of its words. What is `reached` by the next word, or
    found behind the last, is gathered from the `places` of the state that have not been visited yet.
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

    def go_on(self, work: Work) -> bool:
        """Find all destinations, or as far as there is work left; whether all are `found`."""
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
        """Go the next step if it is remembered, else begin to make it."""
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
        """Go from places to those that follow by the next word."""
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
        """All places that the next word leads to are reached."""
        index = self.index
        following = index.state_of(frozenset(self.reached))
        kept = following.generation == index.generation and index.memory.take(index, STEP)
        if kept and self.state.generation == index.generation:
            self.state.steps[self.word] = following
        self.state = following
        self.at += 1
        self.places = None

    def gather(self, work: Work) -> None:
        """Take the destinations of the patterns that end here."""
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
            if index.memory.take(index, len(self.found)) and self.state.generation == index.generation:
                self.state.found = self.found
        work.left = left - visited
        work.visited += visited


def words_of(key: str) -> list[str]:
    """The words between dots. An empty key has none; empty words between dots count."""
    return key.split(".") if key else []


def enter(reached: dict[Place, None], place: Place | None) -> None:
    """Be at a place, and at those that follow it without a word."""
    while place is not None and place not in reached:
        reached[place] = None
        place = place.more
