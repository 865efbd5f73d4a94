"""The open incidents of an acceptor, in a file for its next incarnation: an acceptor that is killed cannot record them.

The file has the incidents that are not over and have lasted a second, as they were at most a second ago. The next
incarnation enters them as incidents that were over at that time.
"""

from __future__ import annotations

from pathlib import Path

from penstock.files.atomic_file import AtomicFile, Records
from penstock.node.logs import get_logger

log = get_logger()


class OpenHolds:
    """The file of one acceptor, in the data directory of its node; times are in seconds since 1970."""

    def __init__(self, data: Path, index: int) -> None:
        self._file = AtomicFile(data / "open_holds" / f"acceptor.{index}.json", "who is held")
        self.keep = self._file.keep

    def read(self) -> Records:
        """Return the records left by a killed incarnation; none, with a warning, if they cannot be read."""
        try:
            return self._file.read()
        except (OSError, ValueError) as error:
            log.warning("who was held is lost", path=str(self._file.path), problem=str(error))
            return []
