"""The code metrics of the repository stay within their bounds (tests/house.py)."""

from __future__ import annotations

from tests.house import figures


def test_the_figures_are_within_their_bounds() -> None:
    above = [(figure.name, figure.value, figure.where) for figure in figures() if figure.value > figure.bound]
    assert not above
