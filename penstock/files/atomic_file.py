"""Records kept for a process's next incarnation, or for the node's next run: a file that is replaced as a whole.

It is not flushed to the disk: a power cut may lose the last state.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import orjson

from penstock.node.logs import get_logger
from penstock.text.utf8 import readable

log = get_logger()

Records = list[dict[str, Any]]


class AtomicFile:
    """The file at a path; `what` names its records in the log."""

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self.what = what
        self._kept: Records = []
        self._fails = False

    def read(self) -> Records:
        """The records of the last `keep`, none if there was none. OSError or ValueError if they cannot be read."""
        try:
            kept = orjson.loads(self.path.read_bytes())
        except FileNotFoundError:
            kept = []
        if not isinstance(kept, list):
            raise ValueError("it holds no list")
        self._kept = kept
        return kept

    def keep(self, records: Records) -> None:
        """Replace the records; after a failure, as on a full disk, the next call retries."""
        records = readable(records)
        if records == self._kept:
            return
        new = self.path.with_suffix(".new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            data = orjson.dumps(records)
            with new.open("wb", buffering=0) as file:  # a buffered write would retry for as long as the disk is full
                if file.write(data) < len(data):
                    raise OSError(errno.ENOSPC, "it was cut short")
            new.replace(self.path)
            self._kept, self._fails = records, False
        except OSError as error:
            if not self._fails:
                log.warning(f"{self.what} cannot be recorded", path=str(self.path), problem=error.strerror)
            self._fails = True
