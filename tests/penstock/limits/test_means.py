"""Means of holding producers, as people write them."""

from __future__ import annotations

import re

import pytest

from penstock.limits.means import ALL, Means, means_of


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("auto", ALL),
        ("park", Means(False, False, False, park=True, pause=False, auto=False)),
        ("flow,blocked, confirms ,park,pause", Means(auto=False)),
        ("pause, confirms", Means(False, False, confirms=True, park=False, pause=True, auto=False)),
    ],
)
def test_read(text: str, means: Means) -> None:
    assert means_of(text) == means


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("blockd, park", "'blockd' is not a means to hold a producer; did you mean 'blocked'?"),
        ("auto, park", "'auto' must stand alone"),
        ("", "'' is not a means to hold a producer; there are auto, flow, blocked, confirms, park, pause"),
        ("blocked, confirms", "'blocked, confirms' has neither park nor pause: publishes without room must wait"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        means_of(text)
