"""The automaton of topic patterns: its memory, its cost, and pauses at any point."""

from __future__ import annotations

import itertools
import random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.model.records import Binding
from tests.router.model.test_matching import NAIVE
from tests.router.strategies import topics
from tests.twins import load_compiled, load_plain

TWINS = [load_compiled("router.model.topics_cy"), load_plain("router.model.topics_cy")]

twins = pytest.mark.parametrize("twin", TWINS, ids=["compiled", "plain"])
bindings = st.builds(lambda name, key: Binding("/", "x", "queue", name, key, {}), st.sampled_from("abc"), topics)
memories = st.sampled_from([0, 60, 200, 1 << 16])
"""Room to remember nothing, a little, and everything."""


def binding(key: str, queue: str = "q") -> Binding:
    return Binding("/", "x", "queue", queue, key, {})


def index_of(twin: ModuleType, *keys: str, limit: int = 1 << 16) -> Any:
    index = twin.TopicIndex(twin.Memory(limit))
    for key in keys:
        index.add(binding(key, f"q{key}"))
    return index


def found(twin: ModuleType, index: Any, key: str) -> tuple[set[Any], int]:
    """Return the destinations of a key, and the number of places visited for them."""
    walk, work = index.walk(key), twin.Work()
    assert walk.advance(work)
    return {*walk.found}, work.visited


def expected(bound: list[Binding], key: str) -> set[Any]:
    return {each.target for each in bound if NAIVE["topic"](each, key, {})}


@twins
@given(bound=st.lists(bindings, unique=True), keys=st.lists(topics, max_size=6), limit=memories)
def test_it_finds_what_the_definition_says(twin: ModuleType, bound: list[Binding], keys: list[str], limit: int) -> None:
    """With much or little memory, on the first walk and when it is remembered, while bindings are removed."""
    index = twin.TopicIndex(twin.Memory(limit))
    for each in bound:
        index.add(each)
    while True:
        for key in [*keys, *keys]:
            assert found(twin, index, key)[0] == expected(bound, key)
            assert index.memory.used <= limit
        if not bound:
            return
        index.remove(bound.pop())


@twins
@given(
    bound=st.lists(bindings, unique=True), others=st.lists(bindings, unique=True, max_size=8), key=topics,
    most=st.integers(1, 4), limit=memories, order=st.randoms(use_true_random=False),
)  # fmt: skip
def test_it_may_pause_anywhere(
    twin: ModuleType, bound: list[Binding], others: list[Binding], key: str, most: int, limit: int, order: Any
) -> None:
    """While bindings come and go, destinations bound all the time are found, and those never bound are not."""
    index = twin.TopicIndex(twin.Memory(limit))
    now, ever, always = {*bound}, {*bound}, {*bound}
    for each in bound:
        index.add(each)
    walk, work = index.walk(key), twin.Work(0)
    while not walk.advance(work):
        work.left = most
        change = others.pop() if others else None
        if change in now:
            index.remove(change)
            now.discard(change)
            always.discard(change)
        elif change is not None:
            index.add(change)
            now.add(change)
            ever.add(change)
        if order.random() < 0.5:
            found(twin, index, key)
    assert expected([*always], key) <= {*walk.found} <= expected([*ever], key)
    assert found(twin, index, key)[0] == expected([*now], key), "what is remembered is of now"


def many_hashes() -> list[str]:
    """Return the patterns of an attack: every place may be active at once."""
    return [f"#.{'.#.'.join(words)}.#.z" for words in itertools.product("ab", repeat=8)]


@twins
def test_a_key_that_came_before_is_only_looked_up(twin: ModuleType) -> None:
    index = index_of(twin, *many_hashes())
    key = ".".join("ab" * 60)
    first, again = found(twin, index, key), found(twin, index, key)
    assert first[0] == again[0]
    assert first[1] > 5_000
    assert again[1] == 121
    assert found(twin, index, f"{key}.x")[1] < first[1] / 2, "what it shares with others is not done twice"


@twins
def test_words_that_no_pattern_has_are_one(twin: ModuleType) -> None:
    index = index_of(twin, "#.a.*.b", "*.c.#")
    found(twin, index, "x.a.y.b.z")
    assert found(twin, index, "unheard.a.of.b.words")[1] == 6


@twins
def test_work_ends_in_the_midst_of_a_word(twin: ModuleType) -> None:
    index = index_of(twin, *many_hashes())
    walk, work = index.walk(".".join("ab" * 20)), twin.Work(0)
    turns = 0
    while not walk.advance(work):
        assert work.left <= 0
        work.left, turns = 10, turns + 1
    assert turns == pytest.approx(work.visited / 10, rel=0.2)
    assert {*walk.found} == found(twin, index, ".".join("ab" * 20))[0]


@twins
def test_it_costs_no_more_than_words_times_places(twin: ModuleType) -> None:
    """This holds for any patterns and keys, and no more is remembered than there is room for."""
    generator = random.Random(5)
    limit = 20_000
    patterns = [".".join(generator.choices("ab*#", k=10)) for _ in range(200)]
    index = index_of(twin, *patterns, limit=limit)
    places = 10 * len(patterns) + 1
    for _ in range(50):
        key = generator.choices("abc", k=40)
        assert found(twin, index, ".".join(key))[1] <= (len(key) + 1) * (places + 1) + len(patterns)
        assert index.memory.used <= limit
        assert sum(len(state.places) for state in index.states.values()) <= limit


@twins
def test_who_remembers_most_forgets_first(twin: ModuleType) -> None:
    """One exchange does not make all others start over."""
    memory = twin.Memory(4000)
    small, large = twin.TopicIndex(memory), twin.TopicIndex(memory)
    small.add(binding("a.*"))
    for key in many_hashes()[:20]:
        large.add(binding(key))
    found(twin, small, "a.b")
    for number in range(200):
        found(twin, large, ".".join(random.Random(number).choices("ab", k=30)))
    assert memory.used <= 4000
    assert found(twin, small, "a.b")[1] == 3
    assert memory.used == small.kept + large.kept
