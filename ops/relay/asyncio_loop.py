"""An event loop of asyncio, as pika's connections and relays use loops."""

from __future__ import annotations

import asyncio
from typing import Any

from pika.adapters.asyncio_connection import _AsyncioIOServicesAdapter


class AsyncioLoop(_AsyncioIOServicesAdapter):  # type: ignore[misc]
    """pika's adapter of a loop, with the timers of its own loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)

    def remove_timeout(self, timer: Any) -> None:
        """Cancel a timer of `call_later`."""
        timer.cancel()
