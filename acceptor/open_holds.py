"""Whom an acceptor holds, in a file for its next life: one that is killed cannot say so itself.

The file has the incidents that are not over, as they were at most a second ago, those that had lasted a second by then.
The next life enters them among those that are over, as ended then.
"""

from __future__ import annotations

from pathlib import Path

from penstock.files.kept_file import KeptFile, Records
from penstock.node.logs import get_logger

log = get_logger()


class OpenHolds:
    """Those of one acceptor, in the data directory of its node; times are in seconds since 1970."""

    def __init__(self, data: Path, index: int) -> None:
        self._file = KeptFile(data / "open_holds" / f"acceptor.{index}.json", "who is held")
        self.keep = self._file.keep

    def left(self) -> Records:
        """What an earlier life that was killed has left; none, and a warning, if it cannot be read."""
        try:
            return self._file.read()
        except (OSError, ValueError) as error:
            log.warning("who was held is lost", path=str(self._file.path), problem=str(error))
            return []
