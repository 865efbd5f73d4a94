"""Evidence of a store, kept outside of it: that the store exists, its node, and how many commits it had.

The process that writes the store records this in DATA/witness/NAME after each commit, without waiting for the disk. So
a store behind its witness comes from another time, and a store with a witness but no files is missing. After a reboot
the witness itself may be behind.

A file has two places for a record, at 0 and at 64, which are written alternately; a place that was written only in
part, on a full disk, is rewritten before the other. So one of the two is whole at all times, and the newer whole one
counts.

A record: identity of the node (8), commits of the store (8), those of them that were on the disk (8), boot id (36), a
CRC-32 of all these (4); little-endian.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from penstock.files.directories import sync_directories
from penstock.node.boot import boot_id
from penstock.node.logs import get_logger

log = get_logger()

FOLDER = "witness"
TOPOLOGY = "topology"
_RECORD = Struct("<QQQ36s")
_CRC = Struct("<I")
_PLACES = 0, 64


class Seen(NamedTuple):
    """The last record of a witness."""

    node: int
    commits: int
    flushed: int
    boot: bytes


class Witness:
    """The witness of one store of a node; `boot` is the boot id of the machine. OSError where it cannot be read or
    written.
    """

    def __init__(self, data: Path, name: str, node: int, boot: str | None = None) -> None:
        self.path = data / FOLDER / name
        self.node = node
        self._boot = (boot or boot_id()).encode()
        self._lock = threading.Lock()
        self._file = -1
        self._place = 0
        self._recorded = 0, 0
        self._fails = False

    def seen(self) -> Seen | None:
        """The last record; None if there is none. ValueError if the file is damaged."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        whole = [seen for at in _PLACES if (seen := _record(data[at:])) is not None]
        if not whole:
            raise ValueError(f"{self.path} is damaged")
        return max(whole, key=lambda seen: (seen.commits, seen.flushed))

    def complaint(self, node: int | None, commits: int) -> str | None:
        """Why a store with this many commits, of that node (None: of none yet), does not match; None if it does.

        ValueError if the witness is damaged.
        """
        seen = self.seen()
        if (node or self.node) != self.node or (seen is not None and seen.node != self.node):
            return "it is of another node"
        if seen is None:
            return None
        self._recorded = 0, seen.flushed
        least = seen.commits if seen.boot == self._boot else seen.flushed
        if node is None or commits < least:
            return f"it is from another time: it has {commits} commits, {least} were made"
        return None

    def record(self, commits: int, flushed: int = 0) -> None:
        """Record the store's commits, and how many of them are on the disk. OSError only at the first record: a failure
        to update the witness is no reason not to write the store.
        """
        with self._lock:
            self._recorded = max(self._recorded[0], commits), max(self._recorded[1], flushed)
            record = _RECORD.pack(self.node, *self._recorded, self._boot)
            data = record + _CRC.pack(crc32(record))
            if self._file < 0:
                self._begin(data)
                return
            try:
                _write(self._file, data, _PLACES[self._place])
                self._place = 1 - self._place
                self._fails = False
            except OSError as error:
                if not self._fails:
                    log.warning("the witness of a store cannot be written", path=str(self.path), problem=error.strerror)
                self._fails = True

    def _begin(self, data: bytes) -> None:
        """Write the first record of this incarnation, flushed to the disk."""
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        unfinished = self.path.with_suffix(self.path.suffix + ".new")
        self._file = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        _write(self._file, data, _PLACES[0])
        self._place = 1
        os.fsync(self._file)
        unfinished.replace(self.path)
        sync_directories(self.path.parent, self.path.parent.parent)

    def forget(self) -> None:
        """Delete the witness of a store that is to be deleted or restarted."""
        self.close()
        self.path.unlink(missing_ok=True)
        if self.path.parent.exists():
            sync_directories(self.path.parent)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1


def _record(data: bytes) -> Seen | None:
    """The record at the beginning of the bytes, if it is whole."""
    record, crc = data[: _RECORD.size], data[_RECORD.size : _RECORD.size + _CRC.size]
    return Seen(*_RECORD.unpack(record)) if len(crc) == _CRC.size and _CRC.pack(crc32(record)) == crc else None


def _write(file: int, data: bytes, at: int) -> None:
    """Write a record at a position. OSError also if the disk takes only a part."""
    if os.pwrite(file, data, at) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def shard_name(index: int) -> str:
    """The name of the witness of a shard's store."""
    return f"shard.{index}"
