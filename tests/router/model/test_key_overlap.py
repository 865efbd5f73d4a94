"""Routing keys that patterns have in common, checked against all short keys."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.text.automata import Undecided
from penstock.text.patterns import PatternError, pattern
from router.model.index import match
from router.model.key_overlap import Keys, Topic, common_key, may_share_key
from router.model.records import Binding
from router.model.topics_cy import Memory, TopicIndex

KEYS = ["".join(letters) for size in range(6) for letters in itertools.product("ab.", repeat=size)]
"""All keys of up to five characters: words of the letters a and b, and empty words."""

words = st.sampled_from(["a", "b", "ab", "", "*", "#"])
topics = st.lists(words, max_size=4).map(".".join)
wildcards = st.lists(st.sampled_from(["a", "b", "ab", "", "*"]), max_size=3).flatmap(
    lambda found: st.sampled_from([found, [*found, ">"]]).map(lambda words: "wildcard:" + ".".join(words))
)
atoms = st.sampled_from(["a", "b", r"\.", ".", "[ab]", "[^a]", "[a-b.]", r"\w", "^", "$", r"\.", "(a|b\\.)", "(?:ab)?"])
repeats = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"])
expressions = st.lists(st.tuples(atoms, repeats).map("".join), max_size=4).map("".join)
alternatives = st.lists(expressions, min_size=1, max_size=2).map("|".join)
ahead = st.builds("^({}{}){}".format, st.sampled_from(["?=", "?!"]), expressions, expressions)
policies = st.one_of(wildcards, expressions, alternatives, ahead).filter(lambda text: is_pattern(text))


def is_pattern(text: str) -> bool:
    try:
        pattern(text)
    except PatternError:
        return False
    return True


def matches(topic: str, key: str) -> bool:
    """Return whether the topic matches the key by the index that routes messages."""
    index = TopicIndex(Memory())
    index.add(binding(topic))
    return bool(match(index, key, {}))


def binding(key: str) -> Binding:
    return Binding("/", "x", "queue", "q", key, {})


@given(policies, st.lists(topics, min_size=1, max_size=2))
def test_common_keys(wanted: str, found: list[str]) -> None:
    """A key that is found matches all patterns; if none is found, no short key does."""
    key = common_key(wanted, found)
    if key is not None:
        assert pattern(wanted).matches(key) and all(matches(topic, key) for topic in found)
    else:
        assert [
            key for key in KEYS if pattern(wanted).matches(key) and all(matches(topic, key) for topic in found)
        ] == []


@given(topics)
def test_a_topic_pattern_matches_what_its_index_says(topic: str) -> None:
    assert [key for key in KEYS if Topic(topic).matches(key)] == [key for key in KEYS if matches(topic, key)]


@pytest.mark.parametrize(
    ("wanted", "topic", "shared"),
    [
        ("wildcard:PRICES.>", "NEWS.#", False),
        ("wildcard:PRICES.>", "#.NYSE", True),
        ("wildcard:PRICES.>", "*", True),
        ("wildcard:PRICES.*", "*", False),
        ("wildcard:*.NYSE", "#.LSE", False),
        ("wildcard:>", "#", True),
        (r"^PRICES\.", "NEWS.#", False),
        (r"^(?!amq\.)", "amq.*", False),
        (r"^(?!amq\.)", "amq.#", True),
        (r"\.\d+$", "*.x.*", True),
        (r"\.\d+$", "#.x", False),
        (r"^[^.]*$", "*.*", False),
        ("(?i)^prices", "news.#", True),
        (r"^\pL+$", "*.*", True),
        (f"^{'a' * 600}$", "b.#", True),
        (f"{'(' * 60}a{')' * 60}", "b.#", True),
        ("(?:a{2}){3}$", "b.#", True),
        ("a{200}", "b.#", True),
    ],
)
def test_what_may_match(wanted: str, topic: str, shared: bool) -> None:
    """Patterns beyond the limits of the search may share a key."""
    assert may_share_key(wanted, (topic,)) is shared


def test_patterns_that_would_take_long_are_given_up() -> None:
    with pytest.raises(Undecided):
        common_key("^x(?:a|b|.)*y$", [".".join(["#.a.*"] * 40) + ".z"])


@pytest.mark.parametrize(
    ("keys", "exchange_type", "key", "onward"),
    [
        (Keys("^a"), "fanout", "b", Keys("^a")),
        (Keys("^a"), "headers", "b", Keys("^a")),
        (Keys(""), "direct", "b", Keys("")),
        (Keys("^a"), "direct", "b", None),
        (Keys("^a"), "direct", "a.#", Keys("^a", exact="a.#")),
        (Keys("^a"), "topic", "a.b", Keys("^a", exact="a.b")),
        (Keys("^a"), "topic", "*.b", Keys("^a", ("*.b",))),
        (Keys("^a", ("*.b",)), "topic", "a.#", Keys("^a", ("*.b", "a.#"))),
        (Keys("^a", ("*.b",)), "topic", "#.c", None),
        (Keys("^a", ("*.b",)), "direct", "a.c", None),
        (Keys("^a", exact="a.b"), "topic", "#.b", Keys("^a", exact="a.b")),
        (Keys("^a", exact="a.b"), "topic", "#.c", None),
        (Keys("^a", exact="a.b"), "direct", "a.c", None),
    ],
)
def test_bindings_on_the_way(keys: Keys, exchange_type: str, key: str, onward: Keys | None) -> None:
    assert keys.through(binding(key), exchange_type) == onward
