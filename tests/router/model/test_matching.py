"""Every index against a matcher that is too simple to be wrong (specification: 3.1.3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.model.fields import typed
from router.model.index import match
from router.model.matching import INDEXES, HeadersIndex, Pair, headers_pattern
from router.model.records import Binding
from router.model.tally import Tally
from router.model.topics_cy import Memory, Work, words_of
from tests.router.strategies import header_arguments, headers, topics
from tests.twins import load_plain

Matcher = Callable[[Binding, str, dict[str, Any]], bool]


def topic_matches(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(topic_matches(pattern[1:], words[skip:]) for skip in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and topic_matches(pattern[1:], words[1:])


def headers_match(arguments: dict[str, Any], headers: dict[str, Any]) -> bool:
    mode = arguments.get("x-match", "all")
    outcomes = []
    for name, value in arguments.items():
        if name == "x-match" or (name.startswith("x-") and not mode.endswith("with-x")):
            continue
        outcomes.append(name in headers and (value is None or typed(headers[name]) == typed(value)))
    return any(outcomes) if mode.startswith("any") else all(outcomes)


NAIVE: dict[str, Matcher] = {
    "direct": lambda binding, key, _: binding.key == key,
    "fanout": lambda binding, key, _: True,
    "topic": lambda binding, key, _: topic_matches(words_of(binding.key), words_of(key)),
    "headers": lambda binding, _, headers: headers_match(dict(binding.arguments), headers),
}

bindings = st.builds(
    lambda kind, name, key, arguments: Binding("/", "x", kind, name, key, arguments),
    st.sampled_from(["queue", "exchange"]),
    st.sampled_from(["one", "two", "three"]),
    topics,
    header_arguments,
)


@pytest.mark.parametrize("kind", NAIVE)
@given(added=st.lists(bindings, unique=True), removed=st.randoms(use_true_random=False), key=topics, headers=headers)
def test_index_agrees(kind: str, added: list[Binding], removed: Any, key: str, headers: dict[str, Any]) -> None:
    """After any additions and removals, exactly the destinations of matching bindings are found, each once."""
    index = INDEXES[kind](Memory(), {})
    for binding in added:
        index.add(binding)
    kept = list(added)
    for binding in removed.sample(added, len(added) // 2):
        index.remove(binding)
        kept.remove(binding)
    expected = {binding.target for binding in kept if NAIVE[kind](binding, key, headers)}
    found = list(match(index, key, {"headers": headers}))
    assert sorted(found) == sorted(expected)


PLAIN = load_plain("router.model.topics_cy")


@pytest.mark.parametrize("kind", NAIVE)
@given(added=st.lists(bindings, unique=True), keys=st.lists(topics, max_size=3), headers=headers)
def test_nothing_is_left_behind(kind: str, added: list[Binding], keys: list[str], headers: dict[str, Any]) -> None:
    """An exchange whose bindings come and go for years stays as small as a new one."""
    make = PLAIN.TopicIndex if kind == "topic" else lambda memory: INDEXES[kind](memory, {})
    index, memory = make(memory := PLAIN.Memory()), memory
    for binding in added:
        index.add(binding)
    for key in keys:
        index.walk(key, {"headers": headers}).advance(PLAIN.Work())
    for binding in added:
        index.remove(binding)
    if kind == "topic":
        index.generation = 0
    assert size(index) == size(make(PLAIN.Memory()))
    assert memory.used == 0


@given(
    added=st.lists(bindings, unique=True), others=st.lists(bindings, unique=True), headers=headers,
    most=st.integers(1, 4),
)  # fmt: skip
def test_headers_may_be_matched_in_parts(
    added: list[Binding], others: list[Binding], headers: dict[str, Any], most: int
) -> None:
    """Destinations bound all the time are found, and those never bound are not."""
    index = HeadersIndex()
    for binding in added:
        index.add(binding)
    walk, work, rest = index.walk("", {"headers": headers}), Work(0), list(others)
    bound = {*added}
    while not walk.advance(work):
        if rest and (binding := rest.pop()) not in bound:
            index.add(binding)
            bound.add(binding)
        work.left = most
    wanted = {binding.target for binding in added if NAIVE["headers"](binding, "", headers)}
    allowed = {binding.target for binding in bound if NAIVE["headers"](binding, "", headers)}
    assert walk.found is not None
    assert wanted <= set(walk.found) <= allowed


def test_a_pattern_of_many_pairs_is_found_by_one_that_tells() -> None:
    """Pairs that all bindings ask for do not make a message visit all bindings."""
    index = HeadersIndex()
    for number in range(1000):
        index.add(Binding("/", "x", "queue", f"q{number}", "", {"k": number, "l": "v", "m": 1}))
    walk, work = index.walk("", {"headers": {"k": 7, "l": "v", "m": 1}}), Work()
    assert walk.advance(work)
    assert walk.found is not None
    assert [*walk.found] == [("queue", "q7")]
    assert work.visited < 20


def test_messages_with_the_same_traits_match_the_same() -> None:
    index = HeadersIndex()
    index.add(Binding("/", "x", "queue", "q", "", {"a": 1}))
    index.add(Binding("/", "x", "queue", "r", "", {"b": None}))

    def traits(**headers: object) -> Collection[Pair]:
        return index.traits({"headers": headers})

    assert traits(a=1, id=7) == traits(a=1, id=8) != traits(a=2)
    assert traits(b=7) == traits(b="x", a=1.0) != traits() == index.traits({})


def size(thing: Any) -> int:
    """Return the number of objects inside, of the types that indexes have."""
    if isinstance(thing, dict):
        return 1 + sum(size(value) for value in thing.values())
    names: Any = getattr(thing, "__slots__", None) or getattr(thing, "__dict__", ())
    return 1 + sum(size(getattr(thing, name)) for name in names)


@given(topics, topics)
def test_naive_topic_agrees_with_a_regular_expression(pattern: str, key: str) -> None:
    """The reference matcher is checked as well: `*` is one word, `#` is any number of words with their dots."""
    words = [r"(?:\.[^.]*)*" if word == "#" else r"\.[^.]*" if word == "*" else rf"\.{re.escape(word)}"
             for word in words_of(pattern)]  # fmt: skip
    assert topic_matches(words_of(pattern), words_of(key)) == bool(
        re.fullmatch("".join(words), f".{key}" if key else "")
    )


def test_many_hashes_do_not_explode() -> None:
    index = INDEXES["topic"](Memory(), {})
    index.add(Binding("/", "x", "queue", "q", ".".join(["#", "a"] * 40), {}))
    assert not match(index, ".".join(["a"] * 39 + ["b"]), {})
    assert match(index, ".".join(["a"] * 127), {})


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("zz", 'Invalid x-match field value <<"zz">>; expected all, any, all-with-x, or any-with-x'),
        (5, "Invalid x-match field type signedint (value 5); expected longstr"),
    ],
)
def test_unknown_modes(mode: Any, text: str) -> None:
    """The texts of RabbitMQ 3.10."""
    with pytest.raises(ValueError, match=re.escape(text)):
        headers_pattern({"x-match": mode})


def test_tally_counts() -> None:
    tally = Tally()
    for _ in range(2):
        tally.add(("queue", "q"))
    tally.remove(("queue", "q"))
    assert tally == {("queue", "q"): 1}
    tally.remove(("queue", "q"))
    assert not tally
