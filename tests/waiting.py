"""Waiting for conditions: with a deadline, never with a sleep of a guessed length."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 50.0
"""Seconds that a test waits for something immediate. Generous, because test machines are busy."""


def wait_for(condition: Callable[[], T | None], timeout: float = PATIENCE, what: str = "", interval: float = 0.02) -> T:
    """Call `condition` until it returns something true and return that; AssertionError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what or condition!r}; last seen: {result!r}")
        time.sleep(interval)


def settled(observe: Callable[[], T], quiet: float = 0.5, timeout: float = PATIENCE) -> T:
    """Call `observe` until its result has not changed for `quiet` seconds and return it.

    For what must *stop*: a queue that accepts no more, a producer that is held.
    """
    deadline = time.monotonic() + timeout
    seen, since = observe(), time.monotonic()
    while time.monotonic() - since < quiet:
        if time.monotonic() > deadline:
            raise AssertionError(f"still changing after {timeout:g} s: {seen!r}")
        time.sleep(quiet / 20)
        now = observe()
        if now != seen:
            seen, since = now, time.monotonic()
    return seen
