"""Patterns as automata: walking through several at once finds the names that they have in common.

An `Automaton` is one regular expression of a `penstock.text.patterns.Pattern`, made deterministic as far as it is
walked. Syntax outside its small grammar (named classes, flags, word boundaries) raises `Undecided`: RE2 still matches
names, only the answer that needs the automaton is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of code points, first and last."""
States: TypeAlias = frozenset[int]

STATES_MAX = 500
REPEATS_MAX = 100
DEPTH_MAX = 20
KNOWN_MAX = 10_000
LAST = 0x10FFFF
ANYTHING: Ranges = ((0, LAST),)
CLASSES: dict[str, Ranges] = {
    "d": ((48, 57),),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "s": ((9, 10), (12, 13), (32, 32)),
}
CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


class Undecided(ValueError):
    """An expression beyond the grammar, or too large."""


# The syntax tree of an expression


@dataclass(frozen=True)
class One:
    """One character from a set."""

    ranges: Ranges


@dataclass(frozen=True)
class Edge:
    """The beginning of the name, or its end."""

    end: bool


@dataclass(frozen=True)
class Sequence:
    """Expressions one after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """Alternatives."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """A repeated expression. `most` is None where there is no limit."""

    part: Node
    least: int
    most: int | None


Node: TypeAlias = One | Edge | Sequence | Choice | Repeat


class Parser:
    """A recursive-descent parser of a subset of RE2's syntax. Undecided beyond it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def parse(self) -> Node:
        """Parse the whole text."""
        node = self.choice(newlines=False)
        if self.at < len(self.text):
            raise Undecided(self.text)
        return node

    def peek(self) -> str:
        """The next character, "" at the end."""
        return self.text[self.at : self.at + 1]

    def skip(self, wanted: str) -> bool:
        """Skip the wanted text if it is next; return whether it was."""
        if found := self.text.startswith(wanted, self.at):
            self.at += len(wanted)
        return found

    def next(self) -> str:
        """Read one character; Undecided at the end."""
        if not (character := self.peek()):
            raise Undecided(self.text)
        self.at += 1
        return character

    def choice(self, newlines: bool) -> Node:
        """Parse alternatives. `newlines`: whether a dot matches a newline."""
        parts = [self.sequence(newlines)]
        while self.skip("|"):
            parts.append(self.sequence(newlines))
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def sequence(self, newlines: bool) -> Node:
        """Parse expressions up to the end of a group or alternative."""
        parts: list[Node] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repeated(self.atom(newlines)))
        return Sequence(tuple(parts))

    def repeated(self, part: Node) -> Node:
        """Parse the repetition operators after an expression."""
        while (sign := self.peek()) and sign in "*+?{":
            least, most = self.times()
            if isinstance(part, Repeat) or max(least, most or 0) > REPEATS_MAX:
                raise Undecided(self.text)
            self.skip("?")
            part = Repeat(part, least, most)
        return part

    def times(self) -> tuple[int, int | None]:
        """Parse one repetition operator: least and most."""
        sign = self.next()
        if sign != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        inside, closed, _ = self.text[self.at :].partition("}")
        least, comma, most = inside.partition(",")
        if not closed or not least.isdecimal() or (most and not most.isdecimal()):
            raise Undecided(self.text)
        self.at += len(inside) + 1
        return int(least), int(most) if most else None if comma else int(least)

    def atom(self, newlines: bool) -> Node:
        """Parse a single expression."""
        character = self.next()
        if character == "(":
            return self.group(newlines)
        if character == "[":
            return One(self.set())
        if character == "\\":
            return self.escaped()
        if character in "^$":
            return Edge(character == "$")
        if character == ".":
            return One(ANYTHING if newlines else inverted(((10, 10),)))
        if character in "*+?{":
            raise Undecided(self.text)
        return One(just(character))

    def group(self, newlines: bool) -> Node:
        """Parse the rest of a group, after its opening parenthesis."""
        if self.skip("?s:"):
            newlines = True
        elif self.skip("?P<"):
            self.at = self.text.index(">", self.at) + 1
        elif not self.skip("?:") and self.peek() == "?":
            raise Undecided(self.text)
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise Undecided(self.text)
        node = self.choice(newlines)
        self.depth -= 1
        if not self.skip(")"):
            raise Undecided(self.text)
        return node

    def escaped(self) -> Node:
        """Parse an escape outside a class, after its backslash."""
        if self.peek() in ("A", "z"):
            return Edge(self.next() == "z")
        return One(self.escape())

    def escape(self) -> Ranges:
        """Parse an escaped character or class, after its backslash."""
        character = self.next()
        if character in CLASSES:
            return CLASSES[character]
        if character.lower() in CLASSES:
            return inverted(CLASSES[character.lower()])
        if character in CONTROLS:
            return just(CONTROLS[character])
        if character.isalnum():
            raise Undecided(self.text)
        return just(character)

    def set(self) -> Ranges:
        """Parse the rest of a class, after its opening bracket."""
        negated = self.skip("^")
        found: list[tuple[int, int]] = []
        while not found or self.peek() != "]":
            found += self.member()
        self.at += 1
        ranges = tuple(sorted(found))
        return inverted(ranges) if negated else ranges

    def member(self) -> Ranges:
        """Parse a character or range within a class."""
        if self.text.startswith("[:", self.at):
            raise Undecided(self.text)
        first = self.escape() if self.skip("\\") else just(self.next())
        if self.peek() != "-" or self.text.startswith("-]", self.at):
            return first
        self.at += 1
        last = self.escape() if self.skip("\\") else just(self.next())
        if len(first) != 1 or len(last) != 1 or first[0][0] != first[0][1] or last[0][0] != last[0][1]:
            raise Undecided(self.text)
        return ((first[0][0], last[0][0]),)


def just(character: str) -> Ranges:
    """The range of one character."""
    return ((ord(character), ord(character)),)


def inverted(ranges: Ranges) -> Ranges:
    """All other code points."""
    found, start = [], 0
    for first, last in sorted(ranges):
        if start < first:
            found.append((start, first - 1))
        start = max(start, last + 1)
    if start <= LAST:
        found.append((start, LAST))
    return tuple(found)


# The automaton of an expression


@dataclass
class Steps:
    """The transitions from a state: by characters, and without one, anywhere or only at an end of the name."""

    by_character: list[tuple[Ranges, int]] = field(default_factory=list)
    free: list[int] = field(default_factory=list)
    at_beginning: list[int] = field(default_factory=list)
    at_end: list[int] = field(default_factory=list)


class Automaton:
    """Decides, character by character from `start` on, whether an expression is found in a name. Undecided if it
    cannot.
    """

    def __init__(self, expression: str) -> None:
        self._steps: list[Steps] = []
        first = self._state()
        self._first = first
        self._found = self._build(Parser(expression).parse(), first)
        self._known: dict[tuple[States, str], States] = {}
        self.start = self._reach([first], beginning=True)

    def _state(self) -> int:
        if len(self._steps) >= STATES_MAX:
            raise Undecided("too large")
        self._steps.append(Steps())
        return len(self._steps) - 1

    def _build(self, node: Node, start: int) -> int:
        """Make the states for a node after a state; return the state after the node."""
        if isinstance(node, Sequence):
            for part in node.parts:
                start = self._build(part, start)
            return start
        if isinstance(node, Repeat):
            return self._build_repeat(node, start)
        end = self._state()
        if isinstance(node, One):
            self._steps[start].by_character.append((node.ranges, end))
        elif isinstance(node, Edge):
            (self._steps[start].at_end if node.end else self._steps[start].at_beginning).append(end)
        else:
            for part in node.parts:
                self._steps[self._build(part, self._behind(start))].free.append(end)
        return end

    def _behind(self, state: int) -> int:
        new = self._state()
        self._steps[state].free.append(new)
        return new

    def _build_repeat(self, node: Repeat, start: int) -> int:
        for _ in range(node.least):
            start = self._build(node.part, start)
        end = self._behind(start)
        if node.most is None:
            again = self._behind(end)
            self._steps[self._build(node.part, again)].free.append(end)
        for _ in range((node.most or 0) - node.least):
            start = self._build(node.part, self._behind(start))
            self._steps[start].free.append(end)
        return end

    def _reach(self, states: list[int], *, beginning: bool = False, end: bool = False) -> States:
        """The states, with all that can be reached without a character."""
        found, waiting = set(states), list(states)
        while waiting:
            steps = self._steps[waiting.pop()]
            onward = steps.free + (steps.at_beginning if beginning else []) + (steps.at_end if end else [])
            waiting += (new := set(onward) - found)
            found |= new
        return frozenset(found)

    def step(self, states: States, character: str) -> States:
        """The states after one more character."""
        known = self._known.get((states, character))
        if known is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            known = self._known[states, character] = self._step(states, ord(character))
        return known

    def _step(self, states: States, point: int) -> States:
        if self._found in states:
            return frozenset((self._found,))
        onward = [
            to
            for state in states
            for ranges, to in self._steps[state].by_character
            if any(first <= point <= last for first, last in ranges)
        ]
        # A match may begin at any character.
        return self._reach([*onward, self._first])

    def is_found(self, states: States, at_beginning: bool) -> bool:
        """Whether the expression is found if the name ends here; `at_beginning` says that the name is empty."""
        return self._found in self._reach(list(states), beginning=at_beginning, end=True)

    def characters(self) -> Iterator[int]:
        """Code points at which the automaton's answer may change: the boundaries of its ranges."""
        for steps in self._steps:
            for ranges, _ in steps.by_character:
                for first, last in ranges:
                    yield first
                    yield last + 1
