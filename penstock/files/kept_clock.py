"""Makes the node's clock continue after a restart: a file of the data directory records the last readings of all
clocks.

Within one boot of the machine nothing needs to be assumed: the time since boot determines the node's clock, whatever
the wall clock does. After a reboot only the wall clock can say how long the machine was off: as much as it has advanced
since the last record, and never less than nothing. Without a file, as for a new node, the node's clock starts as the
wall clock.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import orjson

from penstock.node import clock
from penstock.node.boot import boot_id
from penstock.node.logs import get_logger

FILE_NAME = "clock.json"
RECORD_SECONDS = 60.0
"""Interval of records; a wall clock that was set is recorded at once."""
SET_US = 1_000_000
"""A wall clock that moves this much against the node's clock was set: a daemon that corrects it is slower."""

log = get_logger()


@dataclass(frozen=True, slots=True)
class Noted:
    """Readings of one moment: the machine's boot, and the three clocks (microseconds)."""

    boot: str
    boot_us: int
    node_us: int
    wall_us: int

    @classmethod
    def now(cls) -> Self:
        """The readings of this moment."""
        return cls(boot_id(), clock.boot_us(), clock.now_us(), clock.wall_us())

    @classmethod
    def of(cls, facts: Any) -> Self:
        """The inverse of `asdict`. ValueError if `facts` lack a reading."""
        try:
            return cls(str(facts["boot"]), *(int(facts[name]) for name in ("boot_us", "node_us", "wall_us")))
        except (LookupError, TypeError) as error:
            raise ValueError(f"it has no clock readings: {error}") from None

    @property
    def wall_ahead_us(self) -> int:
        """How far the wall clock was ahead of the node's, in microseconds."""
        return self.wall_us - self.node_us

    def is_continued_by(self, boot: str, boot_us: int) -> bool:
        """Whether a moment of a boot is a later one of the same boot."""
        return boot == self.boot and boot_us >= self.boot_us


def ahead(noted: Noted | None, boot: str, boot_us: int, wall_us: int) -> int:
    """How far the node's clock is ahead of the time since this boot of the machine, in microseconds."""
    if noted is None:
        return wall_us - boot_us
    if noted.is_continued_by(boot, boot_us):
        return noted.node_us - noted.boot_us
    return noted.node_us + max(wall_us - noted.wall_us, 0) - boot_us


def read(data: Path) -> Noted | None:
    """The last readings recorded in a data directory; None if there are none. OSError or ValueError if they cannot be
    read.
    """
    try:
        return Noted.of(orjson.loads((data / FILE_NAME).read_bytes()))
    except FileNotFoundError:
        return None


def write(data: Path, noted: Noted) -> None:
    """Record readings in a data directory, flushed to the disk. OSError if that fails."""
    path = data / FILE_NAME
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(orjson.dumps(asdict(noted)))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


class KeptClock:
    """The clock of a data directory's node."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._recorded: Noted | None = None

    def begin(self) -> None:
        """Start to follow the node's clock, and log any assumption about it."""
        noted = self._read()
        boot, boot_us, wall_us = boot_id(), clock.boot_us(), clock.wall_us()
        clock.adopt(ahead(noted, boot, boot_us, wall_us))
        if noted is not None:
            _log_assumption(noted, noted.is_continued_by(boot, boot_us), wall_us)
        self.record()

    def keep(self) -> None:
        """Record the readings if it is time, and log it if the wall clock was set."""
        noted, now = self._recorded or self._read(), Noted.now()
        moved = 0 if noted is None else now.wall_ahead_us - noted.wall_ahead_us
        if abs(moved) >= SET_US:
            log.warning("the machine's clock was set: deadlines stay", by_seconds=_seconds(moved))
        elif noted is not None and now.boot_us < noted.boot_us + RECORD_SECONDS * 1e6:
            return
        self.record()

    def _read(self) -> Noted | None:
        try:
            return read(self._data)
        except (OSError, ValueError) as error:
            log.warning("the last clock readings are unknown", path=str(self._data / FILE_NAME), problem=str(error))
            return None

    def record(self) -> None:
        """Record the readings of this moment."""
        self._recorded = Noted.now()
        try:
            write(self._data, self._recorded)
        except OSError as error:
            log.warning("the node's clock cannot be recorded", path=error.filename, problem=error.strerror)


def _log_assumption(noted: Noted, same_boot: bool, wall_us: int) -> None:
    passed = wall_us - noted.wall_us
    if same_boot:
        moved = clock.wall_ahead_us() - noted.wall_ahead_us
        if abs(moved) >= SET_US:
            event = "the machine's clock was set while the node was down: deadlines stay"
            log.warning(event, by_seconds=_seconds(moved))
    elif passed < 0:
        event = "the machine was rebooted, and its clock is behind: no time is assumed to have passed"
        log.warning(event, behind_seconds=_seconds(-passed))
    else:
        event = "the machine was rebooted: its clock says how much time has passed"
        log.info(event, assumed_seconds=_seconds(passed))


def _seconds(microseconds: int) -> float:
    return round(microseconds / 1e6, 3)
