"""Automata of patterns: they find the same as RE2, and refuse expressions that they do not understand."""

from __future__ import annotations

import itertools

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from penstock.text.automata import (
    DEPTH_MAX,
    LAST,
    REPEATS_MAX,
    STATES_MAX,
    Automaton,
    Ranges,
    Undecided,
    inverted,
    just,
)

NAMES = ["".join(letters) for size in range(4) for letters in itertools.product("ab.\n", repeat=size)]

atoms = st.sampled_from(
    [
        "a",
        "b",
        r"\.",
        ".",
        "[ab]",
        "[^a]",
        "[a-b.]",
        "[^a-b]",
        r"[\n.]",
        r"\w",
        r"\W",
        r"\s",
        r"[^\s]",
        "^",
        "$",
        r"\A",
        r"\z",
        r"\n",
    ]
)
repeats = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "{0,1}", "*?", "+?", "??"])


def _grouped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.builds("{}{}){}".format, st.sampled_from(["(", "(?:", "(?s:", "(?P<name>"]), inner, repeats)
    return st.lists(groups | inner, min_size=1, max_size=3).map("".join) | st.lists(inner, min_size=2, max_size=3).map(
        "|".join
    )


expressions = st.recursive(st.tuples(atoms, repeats).map("".join), _grouped, max_leaves=5)


def finds(expression: str, name: str) -> bool:
    automaton = Automaton(expression)
    states = automaton.start
    for character in name:
        states = automaton.step(states, character)
    return automaton.is_found(states, at_beginning=not name)


def is_refused_by_re2(expression: str) -> bool:
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(expression, options)
    except re2.error:
        return True
    return False


@given(expressions.filter(lambda text: not is_refused_by_re2(text)))
def test_it_finds_what_re2_finds(expression: str) -> None:
    try:
        Automaton(expression)
    except Undecided:
        return
    wanted = re2.compile(expression)
    assert [name for name in NAMES if finds(expression, name)] == [name for name in NAMES if wanted.search(name)]


@pytest.mark.parametrize(
    ("expression", "found", "others"),
    [
        ("", ["", "a"], []),
        ("b", ["b", "abc"], ["", "ac"]),
        ("^b$", ["b"], ["bb", "ab", ""]),
        ("^$", [""], ["a"]),
        ("a.c", ["abc", "aéc"], ["a\nc", "ac"]),
        ("(?s:a.c)", ["a\nc"], ["ac"]),
        (r"^\d+$", ["0", "19"], ["", "x1", "\N{ARABIC-INDIC DIGIT THREE}"]),
        (r"^[]a-c-]+$", ["]", "-", "b"], ["d", ""]),
        (r"^[^]x]$", ["a"], ["]", "x"]),
        ("^(?:a|bc){2,3}$", ["aa", "abca", "bcbcbc"], ["a", "aaaa", "abc b"]),
        (r"^a\|b$", ["a|b"], ["a", "b"]),
        (r"^\tx\\$", ["\tx\\"], ["tx\\"]),
    ],
)
def test_examples(expression: str, found: list[str], others: list[str]) -> None:
    assert [name for name in [*found, *others] if finds(expression, name)] == found


@pytest.mark.parametrize(
    "expression",
    [
        "(", ")", "a)", "(?i)a", "(?i:a)", "(?=a)", r"\bx", r"\pL", r"\x41", "[[:alpha:]]", "[a", "[a-", "*", "a{",
        "a{x}", "a{1,x}",
        "a{,2}", "a**", "(a", "\\", r"[\d-z]", r"[a-\d]", f"a{{{REPEATS_MAX + 1}}}", f"a{{1,{REPEATS_MAX + 1}}}",
        "(" * (DEPTH_MAX + 1) + "a" + ")" * (DEPTH_MAX + 1), "a" * STATES_MAX,
    ],
)  # fmt: skip
def test_what_is_beyond_the_grammar_or_too_large_is_undecided(expression: str) -> None:
    with pytest.raises(Undecided):
        Automaton(expression)


def test_the_largest_expressions_are_decided() -> None:
    assert finds("(" * DEPTH_MAX + "a" + ")" * DEPTH_MAX, "a")
    assert finds(f"^a{{{REPEATS_MAX}}}$", "a" * REPEATS_MAX) and not finds(f"^a{{{REPEATS_MAX}}}$", "a")
    assert finds("a" * (STATES_MAX - 1), "a" * (STATES_MAX - 1))


@given(expressions, st.text(st.characters(codec="utf-8"), max_size=3))
def test_characters_between_two_boundaries_are_alike(expression: str, before: str) -> None:
    """A walk needs to try only one of the characters between two boundaries."""
    try:
        automaton = Automaton(expression)
    except Undecided:
        return
    states = automaton.start
    for character in before:
        states = automaton.step(states, character)
    bounds = sorted({0, *automaton.characters(), LAST + 1})
    for first, end in itertools.pairwise(bounds):
        steps = {automaton.step(states, chr(point)) for point in (first, (first + end - 1) // 2, end - 1)}
        assert len(steps) == 1


@given(
    st.lists(
        st.tuples(st.integers(0, LAST), st.integers(0, 300)).map(lambda at: (at[0], min(at[0] + at[1], LAST))),
        max_size=5,
    )
)
def test_inverted_ranges_hold_all_other_characters(found: list[tuple[int, int]]) -> None:
    ranges: Ranges = tuple(found)
    others = inverted(ranges)

    def holds(where: Ranges, point: int) -> bool:
        return any(first <= point <= last for first, last in where)

    edges = {0, LAST, *(point + by for pair in ranges for point in pair for by in (-1, 0, 1))}
    assert all(holds(others, point) != holds(ranges, point) for point in edges if 0 <= point <= LAST)
    assert inverted(inverted(just("a"))) == just("a")
