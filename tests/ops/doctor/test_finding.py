"""Findings."""

from __future__ import annotations

from ops.doctor.finding import Level, advice, ok, problem


def test_what_is_well_needs_no_remedy() -> None:
    assert ok("a", "b").remedy == ""
    assert [each.level for each in (ok("a", "b"), advice("a", "b", "c"), problem("a", "b", "c"))] == list(Level)
