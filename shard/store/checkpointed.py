"""An environment whose commits do not wait for the disk; a power cut does not damage it (shard/store/checkpoint.py)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import lmdb

from shard.store.checkpoint import Checkpoint
from shard.store.environment import Environment, is_unfinished, translated


class Checkpointed(Environment):
    """What was written since `sync` was called last may be lost with the power, and nothing else.

    `sync` may be called from a thread of its own: nobody waits for it who reads, and writing only as it begins.
    """

    def __init__(self, path: Path, names: Sequence[str], limit: int, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._flushing = threading.RLock()
        self._lost = False
        if is_unfinished(path):  # the first state there is to go back to is an empty environment
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
            self._checkpoint.note(pages)
        except OSError:
            snapshot.abort()
            raise
        self._pinned.abort()
        self._pinned = snapshot

    def _grow(self) -> None:
        """Pages that are free only since the last checkpoint may be all the room that it takes."""
        with self._flushing:
            unflushed = self._env.info()["last_txnid"] > self._pinned.id()
            if unflushed:
                self._flush()
            else:
                self._pinned.abort()  # nobody may read while a map grows
                super()._grow()
                self._pinned = self._env.begin()

    def _reopen(self) -> None:
        with self._flushing:
            super()._reopen()

    def close(self) -> None:
        with self._flushing:
            super().close()
