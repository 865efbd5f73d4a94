"""Something that goes on beside a test, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeated(action: Callable[[], object], interval: float = 0.02) -> Iterator[None]:
    """Have an action repeated, with pauses of `interval` seconds, for the context."""
    done = threading.Event()

    def repeat() -> None:
        while not done.wait(interval):
            action()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
