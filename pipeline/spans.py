"""The days of a dataset that a range of time reaches, so that others are neither listed nor read."""

from __future__ import annotations

from pipeline import layout
from pipeline.files import Files
from pipeline.layout import Hour

Span = tuple[int, int]
"""A range of time, in µs since 1970: its start, and its end, exclusive."""


def known_days(files: Files, base: str) -> list[str]:
    """Return the days of a dataset, such as 2026-11-20."""
    return [layout.name_of(path).removeprefix("dt=") for path in files.matching(f"{base}/dt=*")]


def days(files: Files, base: str, span: Span | None) -> str:
    """Return a glob for the directories of days below a dataset's: of those that a span reaches, or all."""
    if span is None:
        return f"{base}/dt=*"
    first, last = Hour.of(span[0]).dt, Hour.of(span[1] - 1).dt
    return f"{base}/{{{','.join(f'dt={day}' for day in known_days(files, base) if first <= day <= last)}}}"


def hours(files: Files, base: str, span: Span | None) -> str:
    """Return a glob for the directories of the hours of these days."""
    return f"{days(files, base, span)}/hour=*"
