"""Every index against a matcher that is too simple to be wrong (specification: 3.1.3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.fields import typed
from router.matching import INDEXES, Tally, headers_pattern, words_of
from router.records import Binding
from tests.router.strategies import header_arguments, headers, topics

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


@pytest.mark.parametrize("kind", INDEXES)
@given(added=st.lists(bindings, unique=True), removed=st.randoms(use_true_random=False), key=topics, headers=headers)
def test_index_agrees(kind: str, added: list[Binding], removed: Any, key: str, headers: dict[str, Any]) -> None:
    """Whatever came and went, exactly the destinations of matching bindings are found, each once."""
    index = INDEXES[kind]()
    for binding in added:
        index.add(binding)
    kept = list(added)
    for binding in removed.sample(added, len(added) // 2):
        index.remove(binding)
        kept.remove(binding)
    expected = {binding.target for binding in kept if NAIVE[kind](binding, key, headers)}
    found = list(index.match(key, headers))
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("kind", INDEXES)
@given(added=st.lists(bindings, unique=True))
def test_nothing_is_left_behind(kind: str, added: list[Binding]) -> None:
    """An exchange whose bindings come and go for years stays as small as a new one."""
    index = INDEXES[kind]()
    for binding in added:
        index.add(binding)
    for binding in added:
        index.remove(binding)
    assert size(index) == size(INDEXES[kind]())


def size(thing: Any) -> int:
    """Objects inside, as far as indexes have any."""
    if isinstance(thing, dict):
        return 1 + sum(size(value) for value in thing.values())
    names: Any = getattr(thing, "__slots__", None) or getattr(thing, "__dict__", ())
    return 1 + sum(size(getattr(thing, name)) for name in names)


@given(topics, topics)
def test_naive_topic_agrees_with_a_regular_expression(pattern: str, key: str) -> None:
    """The judge is judged: `*` is one word, `#` is any number of words with their dots."""
    words = [r"(?:\.[^.]*)*" if word == "#" else r"\.[^.]*" if word == "*" else rf"\.{re.escape(word)}"
             for word in words_of(pattern)]  # fmt: skip
    assert topic_matches(words_of(pattern), words_of(key)) == bool(
        re.fullmatch("".join(words), f".{key}" if key else "")
    )


def test_many_hashes_do_not_explode() -> None:
    index = INDEXES["topic"]()
    index.add(Binding("/", "x", "queue", "q", ".".join(["#", "a"] * 40), {}))
    assert not index.match(".".join(["a"] * 39 + ["b"]), {})
    assert index.match(".".join(["a"] * 127), {})


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
