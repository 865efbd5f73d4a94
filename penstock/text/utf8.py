"""Output of clients' texts: names may hold bytes that are not UTF-8, which JSON and terminals cannot show."""

from __future__ import annotations

from typing import Any


def readable(value: Any) -> Any:
    """A value fit for JSON: in all its texts, replacement characters stand for bytes that are not UTF-8."""
    if isinstance(value, str):
        return value if value.isascii() else _readable(value)
    if isinstance(value, dict):
        return {readable(name): readable(each) for name, each in value.items()}
    return [readable(each) for each in value] if isinstance(value, list) else value


def _readable(text: str) -> str:
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte: JSON can have those
        data = text.encode("utf-8", "surrogatepass")
    return data.decode("utf-8", "replace")
