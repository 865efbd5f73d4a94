"""Texts of metrics for scrapers, made in a thread: those of many queues take seconds, in which others are served.

Scrapers that ask for the same while it is being made get one text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from console.metrics.exposition import Chosen, text
from console.metrics.reading import Reading

Wanted = tuple[Chosen, tuple[str, ...] | None, bool]
"""Which metrics, of which vhosts (None: all), and whether in OpenMetrics' format."""


class Scraping:
    """The texts of one process. `reading` begins a reading of the node, with the queues of chosen vhosts."""

    def __init__(self, reading: Callable[[tuple[str, ...] | None], Reading]) -> None:
        self._reading = reading
        self._thread = ThreadPoolExecutor(1, "scraping")
        self._begun: dict[Wanted, asyncio.Future[bytes]] = {}

    async def text(self, wanted: Wanted) -> bytes:
        """Return a text of metrics."""
        begun = self._begun.get(wanted)
        if begun is None:
            begun = asyncio.get_running_loop().run_in_executor(self._thread, self._make, wanted)
            self._begun[wanted] = begun
            begun.add_done_callback(partial(self._done, wanted))
        return await asyncio.shield(begun)

    def close(self) -> None:
        """Make no more texts."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _make(self, wanted: Wanted) -> bytes:
        chosen, vhosts, openmetrics = wanted
        return text(self._reading(vhosts), chosen, openmetrics=openmetrics)

    def _done(self, wanted: Wanted, _made: asyncio.Future[bytes]) -> None:
        del self._begun[wanted]
