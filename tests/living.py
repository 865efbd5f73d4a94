"""What is in memory: without looking for cycles first."""

from __future__ import annotations

import gc


def living(kind: type) -> int:
    """Objects of a kind, in use or in cycles that nobody has collected yet."""
    return sum(isinstance(thing, kind) for thing in gc.get_objects())
