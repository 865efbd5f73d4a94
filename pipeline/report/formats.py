"""Values in the words of the report."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from penstock.telemetry.schema import Column
from penstock.text.durations import shown

SECONDS = {"ms": 1e3, "s": 1.0, "µs": 1e6}
"""Units of lengths of time, in parts of a second."""
AMOUNT = re.compile(r"(?<=\d) (?=(?:ms|s|min|h|d)\b)")
PASSWORD = re.compile(r"([a-z][a-z0-9+.-]*://[^\s/:@]*):[^\s/]*@", re.IGNORECASE)


def cell(column: Column, value: Any) -> str:
    """Return a value with its unit, unless that is the same for all and stands in the column's heading."""
    if value is None:
        return "–"
    if column.unit.startswith("µs since 1970"):
        return moment(value)
    if column.unit in SECONDS:
        return length(value / SECONDS[column.unit])
    if column.unit.startswith("bytes"):
        return size(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return figure(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def unit(column: Column) -> str:
    """Return a column's unit, if its cells do not have theirs, and what its values are summed over."""
    own = "" if column.unit in SECONDS or column.unit.startswith("µs since 1970") else column.unit
    summed = "summed over channels" if "summed over channels" in column.meaning else ""
    return ", ".join(filter(None, (own, summed)))


def is_number(column: Column) -> bool:
    """Return whether a column's values are numbers."""
    return column.type in ("bigint", "int", "smallint", "double")


def figure(value: float) -> str:
    """Return a number with about three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def length(seconds: float) -> str:
    """Return a length of time."""
    if seconds == 0:
        return "0 s"
    return shown(seconds) if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def size(value: float) -> str:
    """Return a number of bytes."""
    for name in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {name}" if name == "B" else f"{value:.1f} {name}"
        value /= 1024
    return f"{value:.1f} TiB"


def moment(at: int) -> str:
    """Return a time in µs since 1970 as date and time of day."""
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def without_passwords(text: str) -> str:
    """Return a text with *** for the passwords of URLs."""
    return PASSWORD.sub(r"\1:***@", text)


def unbroken(text: str) -> str:
    """Return a text in which no line ends between a number and its unit of time."""
    return AMOUNT.sub("\N{NO-BREAK SPACE}", text)
