"""Texts of clients on their way out: names may hold octets that are not UTF-8, JSON and terminals take none."""

from __future__ import annotations

from typing import Any


def readable(value: Any) -> Any:
    """A value as JSON can say it: in all its texts, replacement characters for octets that are not UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {readable(name): readable(each) for name, each in value.items()}
    return [readable(each) for each in value] if isinstance(value, list) else value
