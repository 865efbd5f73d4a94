"""The thread that searches for deadlocks while the node runs (ops/deadlock_search.py)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ops.administration.processes import Processes
from ops.deadlock_search import Asking, DeadlockSearch
from penstock.memory.gauges import Gauges
from penstock.settings import Settings


class DeadlockWatch:
    """Checks for deadlocks within a `with` block, unless the settings say not to. `path` is that of the gauges."""

    def __init__(self, settings: Settings, path: Path) -> None:
        self._data = settings.data
        self._path = path
        self._seconds = settings.flow.deadlock_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="deadlocks", daemon=True)

    def __enter__(self) -> None:
        if self._seconds:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _run(self) -> None:
        with Gauges.open(self._path, writable=False) as gauges:
            search = DeadlockSearch(gauges, self._seconds, self._connected)
            while not self._over.wait(search.interval):
                search.check(time.monotonic())

    @contextmanager
    def _connected(self) -> Iterator[Asking]:
        processes = Processes(self._data)
        with processes.gauges:
            yield processes
