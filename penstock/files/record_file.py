"""Records of one process in a file of JSON lines, of bounded size: the newest are kept, across restarts too.

At `limit` bytes the file is renamed to the same name with `.1` and a new one is begun, so between one and two limits of
records exist. Records that a full disk refuses are lost, like log lines.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import orjson

from penstock.node.logs import get_logger
from penstock.text.utf8 import readable

log = get_logger()

LIMIT = 1024 * 1024


class RecordFile:
    """The file of one process and kind; `limit` in bytes."""

    def __init__(self, path: Path, limit: int = LIMIT) -> None:
        self.path = path
        self.limit = limit

    def append(self, records: Iterable[dict[str, Any]]) -> bool:
        """Append records; return whether they were written. They are not flushed to the disk: a power cut may lose the
        last ones.
        """
        lines = b"".join(orjson.dumps(readable(record), option=orjson.OPT_APPEND_NEWLINE) for record in records)
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
            with self.path.open("ab", buffering=0) as file:
                end = file.tell()
                if file.write(lines) < len(lines):
                    file.truncate(end)  # a partial line would corrupt the next one
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                full = file.tell() >= self.limit
            if full:
                self.path.replace(_older(self.path))
        except OSError as error:
            log.warning("records are lost", path=str(self.path), bytes=len(lines), problem=error.strerror)
            return False
        return True


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield all records of a file, the oldest first, except a line that a crash cut off."""
    for each in (_older(path), path):
        try:
            lines = each.read_bytes().splitlines()
        except FileNotFoundError:
            continue
        for line in lines:
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError:
                continue


def records_path(
    data: Path, what: Literal["audit", "incidents", "short_stops", "events"], role: str, index: int
) -> Path:
    """The file of a process's records of one kind."""
    return data / what / f"{role}.{index}.jsonl"


def _older(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")
