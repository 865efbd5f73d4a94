"""Checkpoints: the last state of an environment that is completely on the disk, recorded beside it.

LMDB that does not flush each commit may lose everything in a power failure: pages reach the disk in any order. But it
never overwrites pages that a snapshot still has, and its first two pages alone determine which state a file is in. So a
checkpoint pins a snapshot, flushes, records these two pages here, and releases the snapshot before it: until the next
checkpoint the pages of this one stay as they are on the disk. After a restart of the system the two pages are written
back, and everything later is forgotten.

Two records take turns, so that one is whole whatever happens to the other: a CRC-32 of all that follows (4), size of
the pages in bytes (4), number of the record (8), boot id (36), the pages; each at a multiple of STRIDE.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from zlib import crc32

from penstock.files.directories import set_aside, sync_directories
from penstock.node.boot import boot_id
from shard.store.environment import FILE_NAME, is_unfinished

NAME = "checkpoint"
STRIDE = 128 * 1024
PIECE = 1024 * 1024
_CRC = Struct("<I")
_HEAD = Struct("<IQ36s")
_START = _CRC.size + _HEAD.size


class Checkpoint:
    """The checkpoint of the environment in `path`, if there is one. OSError where it cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.boot = boot_id().encode()
        self._number = 0

    def first_pages(self, nbytes: int) -> bytes:
        """The first `nbytes` bytes of the environment's file."""
        with _opened(self.path / FILE_NAME) as file:
            return os.pread(file, nbytes, 0)

    def flush(self) -> None:
        """Flush the environment's file to the disk."""
        with _opened(self.path / FILE_NAME) as file:
            os.fdatasync(file)

    def write_again(self) -> None:
        """Write the file anew after a failed flush, whose unwritten pages count as written. No writer may run
        meanwhile.
        """
        with _opened(self.path / FILE_NAME) as file:
            at = 0
            while data := os.pread(file, PIECE, at):
                _write(file, data, at)
                at += len(data)

    def record(self, pages: bytes) -> None:
        """Record the first pages of a state that is on the disk."""
        number = self._number + 1  # if this fails the other record must stay
        record = _HEAD.pack(len(pages), number, self.boot) + pages
        with _opened(self.path / NAME, os.O_CREAT) as file:
            if not self._number:
                with suppress(OSError):  # as long as there is room
                    os.posix_fallocate(file, 0, STRIDE + _CRC.size + len(record))
            _write(file, _CRC.pack(crc32(record)) + record, number % 2 * STRIDE)
            os.fdatasync(file)
        if not self._number:
            sync_directories(self.path)
        self._number = number

    def restore(self) -> None:
        """After a restart of the system, restore the state recorded last, before the next one is recorded.

        Raises ValueError if the record is damaged.
        """
        if is_unfinished(self.path):
            if (self.path / NAME).exists():
                set_aside(self.path / NAME)
            return
        try:
            content = (self.path / NAME).read_bytes()
        except FileNotFoundError:
            return
        self._number, boot, pages = _newest(content)
        if not self._number and any(content[:_START]):  # otherwise it was dismissed, or the first record was cut short
            raise ValueError(f"{NAME} is damaged")
        if self._number and boot != self.boot:
            with _opened(self.path / FILE_NAME) as file:
                _write(file, pages, 0)
                os.fsync(file)

    def is_due(self) -> bool:
        """Whether the state recorded before this start of the system has not been restored yet."""
        try:
            number, boot, _ = _newest((self.path / NAME).read_bytes())
        except FileNotFoundError:
            return False
        return number > 0 and boot != self.boot

    def dismiss(self) -> None:
        """Flush everything and remove the records, which are not needed any more. No writer may run meanwhile."""
        if not (self.path / NAME).exists():
            return
        self.flush()
        content = (self.path / NAME).read_bytes()
        older_first = sorted((0, STRIDE), key=lambda at: _record(content[at:])[0])  # a torn record does not count
        with _opened(self.path / NAME) as file:
            for at in older_first:
                if any(content[at : at + _START]):  # it keeps its place on the disk: the next start may find no other
                    _write(file, bytes(_START), at)
                    os.fsync(file)  # in a power failure neither may outlive a newer one
        self._number = 0


def _newest(content: bytes) -> tuple[int, bytes, bytes]:
    return max(_record(content), _record(content[STRIDE:]))


def _record(content: bytes) -> tuple[int, bytes, bytes]:
    """Number, boot id and pages of the record at the start; number 0 if there is no whole one."""
    at = _START
    if len(content) < at:
        return 0, b"", b""
    (crc,) = _CRC.unpack_from(content)
    size, number, boot = _HEAD.unpack_from(content, _CRC.size)
    if crc32(content[_CRC.size : at + size]) != crc:
        return 0, b"", b""
    return number, boot, content[at : at + size]


@contextmanager
def _opened(path: Path, flags: int = 0) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def _write(file: int, data: bytes, at: int) -> None:
    while data:
        written = os.pwrite(file, data, at)
        if not written:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        data, at = data[written:], at + written
