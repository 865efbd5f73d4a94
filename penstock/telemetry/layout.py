"""Where telemetry lies: a directory an hour for each table, and what the names of the files in it say.

    ROOT/TABLE/v=1/dt=YYYY-MM-DD/hour=H/NODE-PROCESS-BEGUN.jsonl.zst

dt and hour are UTC and those of the rows' `ts`. PROCESS is the writer of the rows, BEGUN when the file was begun, in
microseconds since 1970: no name comes twice, and those of a node sort by age. A name with a point before it is a file
that is still written, or was when its writer died; readers leave such names alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

from penstock.telemetry.schema import VERSION

SUFFIX = ".jsonl.zst"
HOUR_US = 3_600_000_000


class FileName(NamedTuple):
    """What the name of a file says; `finished` is whether readers may look at it."""

    node: str
    process: str
    begun: int
    finished: bool

    def __str__(self) -> str:
        return f"{'' if self.finished else '.'}{self.node}-{self.process}-{self.begun}{SUFFIX}"

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """None if it is no name of a file of telemetry."""
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


def files(root: Path, node: str) -> Iterator[tuple[FileName, Path]]:
    """The files of a node, finished or not, in no order. Those of the compacted tier are not among them."""
    for directory in root.glob("*/v=*/dt=*/hour=*"):
        try:
            paths = list(directory.iterdir())
        except FileNotFoundError:  # it has just been deleted
            continue
        for path in paths:
            name = FileName.parse(path.name)
            if name is not None and name.node == node:
                yield name, path
