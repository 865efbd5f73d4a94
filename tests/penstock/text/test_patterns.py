"""Patterns of operators: their matches, and the refusal of patterns that would match slowly."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.text.patterns import PATTERN_BYTES_MAX, PatternError, pattern

NAMES = ["", "a", "ab", "ba", "amq.direct", "xamq.direct", "orders.eu", "a|b", "(", "a(b", "]x", "é", "aé"]


@pytest.mark.parametrize(
    "text",
    [
        "", ".*", "^a", "a$", "^a$", "b", "^(?:a|b)$", "^(?!amq\\.).*", "^(?!amq\\.)", "^(?!a)(?!b)", "^(?=a)(?!ab).*",
        "^(?!(a|b))", "^(?![(])", "^(?![]x])", "^(?![^]x])", "^(?!\\()", "^(?!a\\|)(?:.*b|c)", "^(?=.*b)a", "^(?!a|b).",
        "é$", "^(?!é)",
    ],
)  # fmt: skip
def test_as_python_has_it(text: str) -> None:
    assert [name for name in NAMES if pattern(text).matches(name)] == [name for name in NAMES if re.search(text, name)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(", "missing )"),
        ("*", "no argument for repetition operator"),
        ("a(?!b)", "invalid perl operator"),
        ("^(?!a", "missing )"),
        ("^(?!a)b|c", "a group of its own"),
        ("^(?!a(?!b))", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("a{2000}", "invalid repetition size"),
        ("a" * (PATTERN_BYTES_MAX + 1), "more than 1024 bytes"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(PatternError, match=re.escape(reason)):
        pattern(text)


def test_names_that_are_not_utf8() -> None:
    assert pattern("^a").matches("a\udcff")
    assert not pattern("^(?!a)").matches("a\udcff")


def test_nothing_takes_long() -> None:
    assert not pattern("^(a+)+$").matches("a" * 254 + "b")
    assert not pattern("^(?!(a*)*b)(a|aa)+$").matches("a" * 254 + "c")


@given(st.text("ab(|)[]\\^?!=.*", max_size=12), st.text("ab(", max_size=4))
def test_whatever_is_accepted_means_what_it_means(text: str, name: str) -> None:
    try:
        found = pattern(text).matches(name)
    except PatternError:
        return
    try:
        expected = re.search(text, name)
    except re.error:
        return  # RE2 accepts a little more: a**, for one
    assert found == (expected is not None)


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("PRICES.>", ["PRICES", "PRICES.", "PRICES.STOCK", "PRICES.STOCK.NASDAQ"], ["PRICESX", "X.PRICES", "prices"]),
        ("*.NYSE", ["A.NYSE", ".NYSE"], ["NYSE", "A.B.NYSE", "A.NYSE.B", "AxNYSE"]),
        ("PRICES.*.NYSE.>", ["PRICES.A.NYSE", "PRICES.A.NYSE.IBM.N"], ["PRICES.NYSE", "PRICES.A.B.NYSE"]),
        (">", ["", "a", "a.b"], []),
        ("a+b.c", ["a+b.c"], ["aab.c", "a+bxc"]),
    ],
)
def test_wildcards(text: str, matching: list[str], others: list[str]) -> None:
    found = [name for name in (*matching, *others) if pattern(f"wildcard:{text}").matches(name)]
    assert found == matching


@pytest.mark.parametrize("text", ["a.>.b", "a*", "PRICES>", "a.b*.c"])
def test_wildcards_are_whole_words(text: str) -> None:
    with pytest.raises(PatternError, match=r"is not a wildcard pattern: \* and > are whole words, > the last one"):
        pattern(f"wildcard:{text}")
