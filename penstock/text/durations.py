"""Durations as people write and read them."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(r"\s*(\d{1,9}(?:\.\d{1,3})?)\s*([a-z]+)\s*")


def seconds_of(text: str) -> float:
    """Seconds of a number with its unit: 250 ms, 90 s, 10m, 10 min, 1.5 h, 2d. ValueError for anything else."""
    found = _TIME.fullmatch(text)
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"'{text}' is not a time: give a number and one of {', '.join(_UNITS)}")
    return float(found[1]) * _UNITS[found[2]]


def shown(seconds: float) -> str:
    """A duration for people, rounded to a suitable unit."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, size, most in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if whole < most:
            return f"{whole // size} {unit}"
    return f"{whole // 86400} d"
