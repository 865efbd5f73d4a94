"""Records that a process keeps for its next life, or the next run of the node: a file that is replaced as a whole.

It is not flushed to the disk: a power cut may cost the last state.
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


class KeptFile:
    """The file at a path; `what` is in it, for the log."""

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self.what = what
        self._kept: Records = []
        self._fails = False

    def read(self) -> Records:
        """What was kept last, none if nothing ever was. OSError or ValueError if it cannot be read."""
        try:
            kept = orjson.loads(self.path.read_bytes())
        except FileNotFoundError:
            kept = []
        if not isinstance(kept, list):
            raise ValueError("there is no list in it")
        self._kept = kept
        return kept

    def keep(self, records: Records) -> None:
        """Have the file say these; what a full disk does not take is tried again at the next call."""
        records = readable(records)
        if records == self._kept:
            return
        new = self.path.with_suffix(".new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            octets = orjson.dumps(records)
            with new.open("wb", buffering=0) as file:  # a buffer would go on for as long as the disk takes nothing
                if file.write(octets) < len(octets):
                    raise OSError(errno.ENOSPC, "it was cut short")
            new.replace(self.path)
            self._kept, self._fails = records, False
        except OSError as error:
            if not self._fails:
                log.warning(f"{self.what} cannot be noted", path=str(self.path), problem=error.strerror)
            self._fails = True
