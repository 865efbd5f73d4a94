"""A machine's clock that a test can set: compiles `clock.c` and controls how far the wall clock is ahead."""

from __future__ import annotations

import struct
from mmap import mmap
from pathlib import Path

from tests.faults.preloaded import compiled

SOURCE = Path(__file__).with_name("clock.c")
OFFSET = struct.Struct("=q")


class WallClock:
    """The clock of all processes that have its `environment`."""

    def __init__(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        offset = place / "offset"
        offset.write_bytes(OFFSET.pack(0))
        with offset.open("r+b") as file:
            self._offset = mmap(file.fileno(), OFFSET.size)
        self.environment = {"LD_PRELOAD": str(compiled(SOURCE, place)), "CLOCK_OFFSET": str(offset)}

    def set(self, seconds: int) -> None:
        """Set the clock `seconds` ahead of the real one."""
        self._offset[:] = OFFSET.pack(seconds)
