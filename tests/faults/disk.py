"""A disk for tests: compiles `disk.c`, controls it, and leaves a data directory as a power cut would."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntFlag
from mmap import mmap
from pathlib import Path
from uuid import uuid4

from tests.faults.preloaded import compiled

SOURCE = Path(__file__).with_name("disk.c")
TROUBLE = struct.Struct("=iiiI")
"""errno, calls, one in, hits: `struct trouble` of disk.c."""
RANGE = struct.Struct("=qq")
"""start, size: `struct range` of disk.c."""
CUT_OFF = -1
SECTORS = (512, 4096)


class Calls(IntFlag):
    """The calls that may be refused: `enum` of disk.c."""

    WRITE = 1
    SYNC = 2
    RESIZE = 4
    OPEN = 8
    SHORT = 16


class Disk:
    """The disk that `root` is on. The files of the harness go to `place`, which must not be below `root`."""

    def __init__(self, root: Path, place: Path, *, cuts: bool = True, sleep_us: int = 0) -> None:
        """`cuts`: keep the data that a power cut would leave; `sleep_us`: the duration of a flush in microseconds."""
        self.root = root
        self.images = place / "images"
        self.images.mkdir(parents=True)
        trouble = place / "trouble"
        trouble.write_bytes(TROUBLE.pack(0, 0, 1, 0))
        with trouble.open("r+b") as file:
            self._trouble = mmap(file.fileno(), TROUBLE.size)
        self._boot = place / "boot_id"
        self._start_system()
        self.environment = {
            "LD_PRELOAD": str(compiled(SOURCE, place)),
            "DISK_BOOT": str(self._boot),
            "DISK_ROOT": str(root),
            "DISK_TROUBLE": str(trouble),
            **({"DISK_IMAGES": str(self.images)} if cuts else {}),
            **({"DISK_SLEEP_US": str(sleep_us)} if sleep_us else {}),
        }

    @contextmanager
    def trouble(self, error: int, calls: Calls, one_in: int = 1) -> Iterator[None]:
        """Have calls fail with the errno `error` inside the block: each, or one in `one_in`."""
        hits = self.hits
        self._trouble[:] = TROUBLE.pack(error, calls, one_in, hits)
        try:
            yield
        finally:
            self._trouble[:] = TROUBLE.pack(0, 0, 1, self.hits)

    @property
    def hits(self) -> int:
        """The number of calls that have failed so far."""
        return int(TROUBLE.unpack(self._trouble[:])[3])

    def cut(self, chance: random.Random) -> None:
        """Cut the power: some of the unflushed data is kept, the rest is lost. No process may have the files open.

        Then start the system again.
        """
        self._start_system()
        for file in self.files():
            image, journal = self._kept(file, "image"), self._kept(file, "dirty")
            if image.exists() or journal.exists():
                content = after_cut(
                    image.read_bytes() if image.exists() else b"",
                    file.read_bytes() if file.exists() else b"",
                    journal.read_bytes() if journal.exists() else b"",
                    chance,
                )
                file.write_bytes(content)
                image.write_bytes(content)
                journal.unlink(missing_ok=True)

    def _start_system(self) -> None:
        self._boot.write_text(f"{uuid4()}\n")

    def files(self) -> list[Path]:
        """Return all files on the disk that were written to."""
        stems = {kept.name.rpartition(".")[0] for kept in self.images.iterdir()}
        return sorted(self.root / stem.replace("%", "/") for stem in stems)

    def _kept(self, file: Path, kind: str) -> Path:
        name = str(file.relative_to(self.root)).replace("/", "%")
        return self.images / f"{name}.{kind}"


def after_cut(image: bytes, live: bytes, journal: bytes, chance: random.Random) -> bytes:
    """Return a file's content on the disk: the image, with none, some or all of the sectors written since."""
    content = bytearray(image)
    share = chance.choice([0.0, 0.1, 0.5, 0.9, 1.0])
    sector = chance.choice(SECTORS)
    for start, size in RANGE.iter_unpack(journal):
        if size == CUT_OFF:
            if chance.random() < share:
                del content[start:]
            continue
        for at in range(start - start % sector, start + size, sector):
            if chance.random() < share:
                first, last = max(at, start), min(at + sector, start + size, len(live))
                content.extend(bytes(max(last - len(content), 0)))
                content[first:last] = live[first:last]
    return bytes(content)
