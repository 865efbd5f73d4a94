"""What is not compared, and why: the list of intended differences."""

from __future__ import annotations

import re

TEXTS = {
    # RabbitMQ 3.10 says one or the other, after what it happens to have heard of; 4.x says one.
    r"(unknown|invalid) exchange type": "unknown exchange type",
}


def text(words: str) -> str:
    """The text of an error without what is meant to differ."""
    for pattern, common in TEXTS.items():
        words = re.sub(pattern, common, words)
    return words
