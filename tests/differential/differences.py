"""Intended differences, which are not compared, with their reasons."""

from __future__ import annotations

import re

TEXTS = {
    # RabbitMQ 3.10 uses one or the other, depending on whether the name is a known atom; 4.x uses one.
    r"(unknown|invalid) exchange type": "unknown exchange type",
    # RabbitMQ quotes an atom that has a hyphen once more.
    "''x-consistent-hash''": "'x-consistent-hash'",
}


def text(words: str) -> str:
    """Return an error text without the intended differences."""
    for pattern, common in TEXTS.items():
        words = re.sub(pattern, common, words)
    return words
