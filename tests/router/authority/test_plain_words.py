"""The reasons of refusals in plain words: operators see none of Erlang's terms, whatever value they give."""

from __future__ import annotations

import re

import pytest

from penstock.limits import queue_limits
from router.authority import queue_arguments
from router.authority.plain_words import in_plain_words

VALUES: list[object] = [None, True, 0, -1, 2**40, 2**70, 0.5, "no such word", ["a"], {"a": 1}]
TERM = re.compile(r"\{\w+,|longstr|signedint|invalid_")


@pytest.mark.parametrize("name", sorted({*queue_arguments.RULES, *queue_limits.ARGUMENTS}))
def test_no_reason_has_a_term_of_erlang(name: str) -> None:
    for value in VALUES:
        reason = queue_arguments.problem(name, value)
        if reason is not None:
            assert not TERM.search(in_plain_words(reason)), (value, reason)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ('"expected integer, got longstr"', "expected a whole number, got text"),
        ("{value_negative,-1}", "-1 is negative"),
        ("{value_zero,0}", "0 is too small"),
        ("{value_too_large,99}", "99 is too large"),
        ("{max_value_exceeded,300}", "300 is too large"),
        ("{unacceptable_type,signedint}", "expected text, got a whole number"),
        ("{unacceptable_type,longstr}", "expected true or false, got text"),
        ("invalid_flow", "expected one of on, off"),
        ("\"'2 h' is not between 1 ms and 1 h\"", "'2 h' is not between 1 ms and 1 h"),
    ],
)
def test_reasons_in_plain_words(reason: str, said: str) -> None:
    assert in_plain_words(reason) == said
