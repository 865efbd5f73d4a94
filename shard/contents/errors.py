"""Errors of a shard's store."""

from __future__ import annotations

from pathlib import Path


class StoreError(Exception):
    """The store cannot be read or written; the text says which store and why, `reason` only why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class DamagedError(StoreError):
    """A record of the store is not as it was written. `key` is that of the segment, if it is one; `spilled` says
    where.
    """

    key: bytes | None = None
    spilled = False
