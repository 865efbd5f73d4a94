"""What reading bytes comes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.amqp.errors import FrameSyntaxError


def outcome(read: Callable[[bytes], Any], data: bytes) -> Any:
    """Return the result, or the documented error; any other exception fails the test."""
    try:
        return read(data)
    except FrameSyntaxError as error:
        return error
