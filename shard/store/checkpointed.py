"""An environment whose commits do not wait for the disk; power failures do not damage it
(shard/store/checkpoint.py).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import lmdb

from shard.store.checkpoint import Checkpoint
from shard.store.environment import Environment, is_unfinished, translated


class Checkpointed(Environment):
    """A power failure may lose commits written since the last call of `sync`, and nothing else.

    `sync` may be called from a thread of its own: readers do not wait for it, and writers only as it begins.
    """

    def __init__(self, path: Path, names: Sequence[str], limit: int, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._flushing = threading.RLock()
        self._lost = False
        if is_unfinished(path):  # the first state to return to is an empty environment
            Environment(path, names, limit, synced=True).close()
        super().__init__(path, names, limit, synced=False)

    def _open(self) -> None:
        super()._open()
        try:
            self._pinned = self._env.begin()
            self._flush()
        except (lmdb.Error, OSError):
            self._env.close()
            raise

    def sync(self) -> None:
        with translated(self.path), self._flushing:
            self._flush()

    def _flush(self) -> None:
        with self._writing:
            if self._lost:
                self._checkpoint.write_again()
            snapshot = self._env.begin()
            pages = self._checkpoint.first_pages(2 * self._env.stat()["psize"])
        try:
            self._lost = True
            self._checkpoint.flush()
            self._lost = False
            self._checkpoint.record(pages)
        except OSError:
            snapshot.abort()
            raise
        self._pinned.abort()
        self._pinned = snapshot

    def _grow(self) -> None:
        """Grow the map, unless a flush frees pages: those free only since the last checkpoint may be enough."""
        with self._flushing:
            unflushed = self._env.info()["last_txnid"] > self._pinned.id()
            if unflushed:
                self._flush()
            else:
                self._pinned.abort()  # no snapshot may be open while a map grows
                super()._grow()
                self._pinned = self._env.begin()

    def _reopen(self) -> None:
        with self._flushing:
            super()._reopen()

    def close(self) -> None:
        with self._flushing:
            super().close()
