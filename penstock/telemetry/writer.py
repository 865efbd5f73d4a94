"""Writes the rows of one process to its files. A producer of rows never waits, whatever happens to the disk.

    put ──▶ buffer, bounded in bytes ──(each `frame_seconds`, by a thread)──▶ a frame each table ──▶ file

Rows that exceed the buffer, or that the disk refuses, are dropped and counted; the next row of the table reports them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from penstock.node.logs import get_logger
from penstock.node.node import Node, Role
from penstock.settings.sections import TelemetrySettings
from penstock.telemetry.files import HourOf, LiveFiles
from penstock.telemetry.frames import frame
from penstock.telemetry.layout import HOUR_US
from penstock.telemetry.schema import TABLES, VERSION, Table
from penstock.text.utf8 import readable

log = get_logger()

CLOSE_SECONDS = 0.5
"""How long the end of a process may wait for its last rows to be written."""


class Batch:
    """Waiting rows of one table and hour, as lines, and the number of lost rows that they report."""

    __slots__ = ("lines", "lost_reported")

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.lost_reported = 0


class Writer:
    """The rows of one incarnation of a process; `process` is its role, index and incarnation. The first row starts the
    thread.
    """

    def __init__(self, root: Path, node: str, epoch: int, process: str, settings: TelemetrySettings) -> None:
        self.frame_seconds = settings.frame_seconds
        self.most = settings.buffer_bytes
        self.files = LiveFiles(root, node, process, settings.file_seconds, settings.file_bytes)
        common = orjson.dumps({"v": VERSION, "node": node, "epoch": epoch, "writer": process})
        self.prefix = common[:-1] + b',"ts":'
        self.lock = threading.Lock()
        self.waiting: dict[HourOf, Batch] = {}
        self.nbytes = 0
        self.numbers = dict.fromkeys(TABLES, 0)
        self.lost = dict.fromkeys(TABLES, 0)
        self.dropped = 0  # rows, in total
        self.failing = False
        self.has_rows = threading.Event()
        self.closing = threading.Event()
        self.thread: threading.Thread | None = None

    @classmethod
    def of(cls, node: Node, role: Role, index: int, incarnation: int) -> Writer | None:
        """The writer of a process of the node; None if telemetry is disabled."""
        settings = node.settings
        if not settings.telemetry.enabled:
            return None
        process = f"{role}.{index}.{incarnation}"
        return cls(settings.telemetry_directory, node.telemetry_name, node.epoch, process, settings.telemetry)

    def put(self, table: Table, ts: int, facts: dict[str, Any]) -> None:
        """Queue a row (`penstock.telemetry.rows.Put`)."""
        columns = encoded(facts)
        with self.lock:
            number = self.numbers[table.name] = self.numbers[table.name] + 1
            lost = self.lost[table.name]
            line = b'%b%d,"seq":%d,"rows_lost":%d,%b\n' % (self.prefix, ts, number, lost, columns[1:])
            if self.nbytes + len(line) > self.most:
                self.lost[table.name] += 1
                self.dropped += 1
                return
            self.lost[table.name] = 0
            self.nbytes += len(line)
            batch = self.waiting.setdefault((table.name, ts // HOUR_US), Batch())
            batch.lines.append(line)
            batch.lost_reported += lost
        if not self.has_rows.is_set():
            self.has_rows.set()
            if self.thread is None:
                self.thread = threading.Thread(target=self.run, name="telemetry", daemon=True)
                self.thread.start()

    def close(self) -> None:
        """Write the waiting rows and finish all files, unless the disk takes longer than `CLOSE_SECONDS`."""
        self.closing.set()
        self.has_rows.set()
        if self.thread is not None:
            self.thread.join(CLOSE_SECONDS)

    # In the thread

    def run(self) -> None:
        """Write waiting rows and finish files until the writer is closed."""
        while not self.closing.is_set():
            self.has_rows.wait(self.files.due())
            if self.has_rows.is_set():
                self.closing.wait(self.frame_seconds)
            self.write()
            self.finish(self.files.finish_due)
        self.write()
        self.finish(self.files.finish_all)

    def write(self) -> None:
        """Write a frame of all waiting rows for each table and hour."""
        with self.lock:
            waiting, self.waiting = self.waiting, {}
            self.nbytes = 0
            self.has_rows.clear()
        for (table, hour), batch in waiting.items():
            try:
                self.files.append(table, hour, frame(batch.lines))
            except OSError as error:
                self.log_failure(error)
                with self.lock:
                    self.lost[table] += len(batch.lines) + batch.lost_reported
                    self.dropped += len(batch.lines)
            else:
                self.log_recovery()

    def finish(self, files: Callable[[], None]) -> None:
        """Run a step that finishes files, and log its failure."""
        try:
            files()
        except OSError as error:
            self.log_failure(error)

    def log_failure(self, error: OSError) -> None:
        """Log the first failure of the disk in a row."""
        if not self.failing:
            self.failing = True
            log.error("telemetry cannot be written", problem=str(error))

    def log_recovery(self) -> None:
        """Log that the disk works again."""
        if self.failing:
            self.failing = False
            log.info("telemetry is written again", dropped=self.dropped)


def encoded(facts: dict[str, Any]) -> bytes:
    """Facts as JSON; texts of clients need not be UTF-8."""
    try:
        return orjson.dumps(facts)
    except TypeError:
        return orjson.dumps(readable(facts))
