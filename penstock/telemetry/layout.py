"""Places and names of telemetry files: a directory for each table and hour.

    ROOT/TABLE/v=1/dt=YYYY-MM-DD/hour=H/NODE-PROCESS-BEGUN.jsonl.zst

dt and hour are UTC and those of the rows' `ts`. PROCESS is the writer of the rows, BEGUN when the file was begun, in
microseconds since 1970: names are unique, and those of a node sort by age. A name with a leading dot is that of a file
still being written, or abandoned by a dead writer; readers skip it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

from penstock.telemetry.schema import VERSION

SUFFIX = ".jsonl.zst"
HOUR_US = 3_600_000_000


class FileName(NamedTuple):
    """The parts of a file's name; `finished`: whether readers may open it."""

    node: str
    process: str
    begun: int
    finished: bool

    def __str__(self) -> str:
        return f"{'' if self.finished else '.'}{self.node}-{self.process}-{self.begun}{SUFFIX}"

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The parts of a name; None if it is not that of a telemetry file."""
        stem = name.removesuffix(SUFFIX)
        node, _, begun = stem.rpartition("-")
        node, _, process = node.rpartition("-")
        if stem == name or not begun.isdecimal() or not process or not node.removeprefix("."):
            return None
        return cls(node.removeprefix("."), process, int(begun), not node.startswith("."))


def partition(root: Path, table: str, hour: int) -> Path:
    """The directory of the rows of a table and an hour, counted from 1970."""
    day = datetime.fromtimestamp(hour * 3600, UTC)
    return root / table / f"v={VERSION}" / f"dt={day:%Y-%m-%d}" / f"hour={day.hour}"


def files(root: Path, names: Collection[str]) -> Iterator[tuple[FileName, Path]]:
    """Yield the files of the node of these names, finished or not, in no order, without those of the compacted tier."""
    for directory in root.glob("*/v=*/dt=*/hour=*"):
        try:
            paths = list(directory.iterdir())
        except FileNotFoundError:  # just deleted
            continue
        for path in paths:
            name = FileName.parse(path.name)
            if name is not None and name.node in names:
                yield name, path
