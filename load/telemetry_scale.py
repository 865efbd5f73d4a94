"""The cost of compaction and report on much telemetry: rows of some days are generated, then `python -m pipeline` runs.

    python -m load.telemetry_scale --rows 5000000 50000000
    python -m load.telemetry_scale --days 1 7 30 --queues 1000 --rows 1440000

The rows are those of `--queues` on 16 shards: `--rows` a day, a file a minute, sizes and rates by a seed. Each number
of rows gives a row of a table in Markdown: seconds and processor time a row of both commands, and the peak memory of
all processes of a command together. With `--days` there is a row for each number of days instead: what a report on all
of them costs, from summaries and from all rows (`--exact`). All files, Spark's included, are in a temporary directory
that is removed at the end.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import psutil
import zstandard

from penstock.telemetry.layout import FileName, partition
from penstock.telemetry.schema import TABLES

SHARDS, MINUTES = 16, 24 * 60
MINUTE_US = 60_000_000
DAY = 1_763_596_800_000_000
"""2025-11-20, in µs since 1970: `compact` leaves hours alone that are not over."""
EPOCH = DAY - 3_600_000_000
NODE, WRITER = "scale", "console.0.1"
EPISODES_A_MINUTE = 20
ROWS_A_MINUTE = 1_000
"""More than any other table has: their rows are numbered by the minute."""
HELD = 50
"""One queue in so many holds producers."""
USERS = [f"user-{number}" for number in range(40)]
POLL_S = 0.5
HEAD = """\
| rows | live tier | made in | compaction | CPU a row | history | report | CPU a row | memory |
| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""
HEAD_OF_DAYS = """\
| queues | days | rows | compaction, CPU a row | history | of it summaries | report | CPU | `--exact` | CPU | memory |
| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a command with its descendants: seconds, processor seconds, and peak resident memory in bytes."""

    seconds: float
    cpu: float
    peak_rss: int


def main(arguments: Sequence[str] | None = None) -> None:
    """Run each size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[5_000_000], help="rows of the table depth, for each run"
    )
    parser.add_argument("--queues", type=int, default=10_000, help="their number")
    parser.add_argument("--days", type=int, nargs="+", help="days for a report on each number of them")
    parser.add_argument("--master", default="local[2]", help="Spark's master, where jobs run")
    parser.add_argument("--memory", default="2g", help="heap of Spark's driver")
    parser.add_argument("--directory", type=Path, help="for the rows; default: a temporary one")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the rows are removed
    if DAY + max(options.days or [1]) * MINUTES * MINUTE_US > time.time() * 1e6:
        parser.error("--days: the days reach beyond today, and compact summarizes only days that are over")
    if options.directory is not None:
        options.directory.mkdir(parents=True, exist_ok=True)
    print(HEAD if options.days is None else HEAD_OF_DAYS)
    for rows in options.rows:
        root = Path(tempfile.mkdtemp(prefix="penstock-scale-", dir=options.directory))
        try:
            scale = Scale(root, rows, options.queues, options.master, options.memory)
            for row in [scale.measure()] if options.days is None else scale.measure_days(sorted(options.days)):
                print(row, flush=True)
        finally:
            shutil.rmtree(root)


class Scale:
    """Telemetry of so many rows a day, and the commands that read it."""

    def __init__(self, root: Path, rows: int, queues: int, master: str, memory: str) -> None:
        self.root, self.rows, self.queues = root, rows, queues
        configuration = (f"spark.driver.memory={memory}", f"spark.local.dir={root / 'spark'}")
        self.where = ("--telemetry", str(root), "--master", master, *(f"--conf={each}" for each in configuration))

    def measure(self) -> str:
        """Generate a day, run both commands and return a row of the table."""
        began = time.monotonic()
        make(self.root, self.rows, self.queues)
        made = time.monotonic() - began
        live = _size(self.root)
        compaction, report = run("compact", *self.where), self.report(0, 1)
        cells = (
            f"{self.rows:,}",
            f"{live / 2**20:,.0f} MiB",
            f"{made:.0f} s",
            f"{compaction.seconds:.0f} s",
            f"{compaction.cpu * 1e6 / self.rows:.1f} µs",
            f"{_size(self.root / 'history') / 2**20:,.0f} MiB",
            f"{report.seconds:.0f} s",
            f"{report.cpu * 1e6 / self.rows:.1f} µs",
            f"{max(compaction.peak_rss, report.peak_rss) / 2**30:.1f} GiB",
        )
        return f"| {' | '.join(cells)} |"

    def measure_days(self, days: Sequence[int]) -> Iterator[str]:
        """Generate the days, compact them as they come, and yield a row of the table for each number of days."""
        known = 0
        compaction = 0.0
        for number in days:
            make(self.root, self.rows, self.queues, number * MINUTES, first=known * MINUTES)
            compaction += run("compact", *self.where).cpu
            known = number
            found, exact = self.report(0, number), self.report(0, number, "--exact")
            summaries = sum(_size(each) for each in (self.root / "history").iterdir() if each.name not in TABLES)
            cells = (
                f"{self.queues:,}",
                f"{number}",
                f"{number * self.rows:,}",
                f"{compaction * 1e6 / (number * self.rows):.1f} µs",
                f"{_size(self.root / 'history') / 2**20:,.0f} MiB",
                f"{summaries / 2**20:,.0f} MiB",
                *(text for cost in (found, exact) for text in (f"{cost.seconds:.0f} s", f"{cost.cpu:.0f} s")),
                f"{found.peak_rss / 2**30:.1f} GiB",
            )
            yield f"| {' | '.join(cells)} |"

    def report(self, begin: int, end: int, *options: str) -> Cost:
        """Report on the days from `begin` to before `end`."""
        times = (f"--{name}={_day(number)}" for name, number in (("from", begin), ("to", end)))
        pages = ("--html", str(self.root / "report.html"), "--json", str(self.root / "report.json"))
        return run("report", *self.where, *times, *pages, *options)


def _day(number: int) -> str:
    return f"{datetime.fromtimestamp(DAY / 1e6, UTC) + timedelta(days=number):%Y-%m-%dT%H:%M}"


def run(*command: str) -> Cost:
    """Run a command of the pipeline. RuntimeError with the end of its log if it fails."""
    began, peak = time.monotonic(), 0
    used: dict[int, float] = {}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([sys.executable, "-m", "pipeline", *command], stderr=log)
        try:
            while process.poll() is None:
                peak = max(peak, _sample(process.pid, used))
                time.sleep(POLL_S)
        finally:
            process.terminate()
            process.wait()
        if process.returncode:
            log.seek(0)
            raise RuntimeError(log.read().decode(errors="replace")[-2000:])
    return Cost(time.monotonic() - began, sum(used.values()), peak)


def make(root: Path, rows: int, queues: int, minutes: int = MINUTES, first: int = 0, seed: int = 1) -> None:
    """Write the minutes from `first` to before `minutes` of telemetry: `rows` rows of depth a day, and matching rows of
    other tables.
    """
    chance = random.Random(seed + first)
    interval = MINUTES * 60_000 * queues // rows
    known = [_Queue(chance, number, interval) for number in range(queues)]
    compressor = zstandard.ZstdCompressor(level=3)
    counts = dict.fromkeys(TABLES, first * ROWS_A_MINUTE)
    for minute in range(first, minutes):
        begin = DAY + minute * MINUTE_US
        least, most = (rows * each // MINUTES for each in (minute, minute + 1))
        step = MINUTE_US / max(most - least, 1)
        depth = (
            known[number % queues].line(int(begin + (number - least) * step), number + 1)
            for number in range(least, most)
        )
        _write(root, "depth", begin, depth, compressor)
        for name, found in (
            ("shard", _shards(chance, begin, queues)),
            ("flow", _episodes(chance, begin, max(queues // HELD, 1))),
            ("connection", _connections(chance, begin)),
        ):
            _write(root, name, begin, _numbered(found, name, counts), compressor)


class _Queue:
    """A queue whose consumers keep up with the mean rate; one queue in five has peaks that they do not keep up with."""

    def __init__(self, chance: random.Random, number: int, interval_ms: int) -> None:
        shard = min(int(chance.expovariate(1) * 4), SHARDS - 1)
        self.rate = chance.paretovariate(1.2) * interval_ms / 1000
        self.able = int(self.rate * 1.05) + 1
        self.size = chance.choice((200, 1_000, 8_000))
        self.whole = self.size + 100
        self.stop = chance.choice((0, 1_000, 10_000))
        self.phase = chance.random() * math.tau
        self.steady = chance.random() < 0.8
        self.depth = 0
        same = {
            **_common(), "vhost": "/", "queue": f"queue-{number:05}", "shard": shard, "unacked": 0, "unacked_bytes": 0,
            "n_redelivered": 0, "n_dropped": 0, "interval_ms": interval_ms, "consumers": 1, "stop_count": self.stop,
            "resume_count": self.stop * 7 // 8, "stop_bytes": 0, "resume_bytes": 0, "flow_epoch": 0, "policy": None,
        }  # fmt: skip
        self.same = orjson.dumps(same)[:-1]

    def line(self, ts: int, seq: int) -> bytes:
        """Return the next row. The JSON is formatted by hand: there are fifty million rows."""
        swing = 1.0 if self.steady else 1.0 + 0.9 * math.sin(ts / 1e10 + self.phase)
        published = int(self.rate * swing)
        acked = min(self.depth + published, self.able)
        self.depth += published - acked
        return (
            b'%b,"ts":%d,"seq":%d,"ready":%d,"ready_bytes":%d,"n_published":%d,"n_delivered":%d,"n_acked":%d,'
            b'"saturated":%b,"published_bytes":%d,"delivered_bytes":%d,"whole_bytes":%d}\n'
        ) % (
            self.same, ts, seq, self.depth, self.depth * self.size, published, acked, acked,
            b"true" if 0 < self.stop < self.depth else b"false", published * self.size, acked * self.size,
            self.depth * self.whole,
        )  # fmt: skip


def _shards(chance: random.Random, begin: int, queues: int) -> Iterator[dict[str, Any]]:
    for second in range(0, 60, 10):
        for shard in range(SHARDS):
            moved = int(50_000 / (shard + 1) * chance.uniform(0.8, 1.2))
            yield {
                "shard": shard, "pid": 100 + shard, "incarnation": 1, "cpu": chance.random(), "rss": 10**8,
                "loop_lag_p50_us": 100, "loop_lag_p99_us": 2_000, "msgs_in": moved, "msgs_out": moved,
                "bytes_in": moved * 1_000, "bytes_out": moved * 1_000, "interval_ms": 10_000, "commit_us_p99": 900,
                "store_used": 10**8, "store_limit": 10**10, "memory_used": 10**7, "memory_limit": 10**9,
                "queues": queues // SHARDS, "ready": 0, "unacked": 0, "saturated": False,
                "ts": begin + second * 1_000_000,
            }  # fmt: skip


def _episodes(chance: random.Random, begin: int, held: int) -> Iterator[dict[str, Any]]:
    for number in range(EPISODES_A_MINUTE):
        ts, user = begin + number * 1_000_000 + 30_000_000, chance.choice(USERS)
        row = {
            "vhost": "/", "queue": f"queue-{chance.randrange(held):05}", "shard": 0, "acceptor": 0,
            "connection": f"0.1.{number}", "channel": 1, "user": user, "product": "client", "cause": "count",
            "reason": "", "mark": 1_000, "depth": 1_001, "flow_epoch": 1,
        }  # fmt: skip
        stopped = chance.randrange(100, 20_000)
        yield {**row, "action": "stop", "ts": ts - stopped * 1_000}
        yield {
            **row, "action": "resume", "ts": ts, "stopped_ms": stopped, "peak_depth": 1_001 + chance.randrange(200),
            "parked": chance.randrange(100), "after_stop": chance.randrange(10), "notified_by": "flow", "obeyed": True,
            "outcome": "free",
        }  # fmt: skip


def _connections(chance: random.Random, begin: int) -> Iterator[dict[str, Any]]:
    row = {"acceptor": 0, "connection": f"0.1.{chance.randrange(10**6)}", "peer": "127.0.0.1:1", "product": "client"}
    yield {**row, "event": "open", "product_version": "1", "user": chance.choice(USERS), "channels": 0, "ts": begin}


def _common() -> dict[str, Any]:
    return {"v": 1, "node": NODE, "epoch": EPOCH, "writer": WRITER, "rows_lost": 0}


def _numbered(rows: Iterator[dict[str, Any]], table: str, counts: dict[str, int]) -> Iterator[bytes]:
    for row in rows:
        counts[table] += 1
        yield orjson.dumps({**_common(), "seq": counts[table], **row}, option=orjson.OPT_APPEND_NEWLINE)


def _write(root: Path, table: str, begin: int, lines: Iterator[bytes], compressor: zstandard.ZstdCompressor) -> None:
    directory = partition(root, table, begin // 3_600_000_000)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / str(FileName(NODE, WRITER, begin, True))).write_bytes(compressor.compress(b"".join(lines)))


def _sample(pid: int, used: dict[int, float]) -> int:
    """Return the resident memory of a process and its descendants in bytes; update `used`, the processor seconds of
    each. A process that has just ended adds no memory, and keeps its seconds of the sample before.
    """
    total = 0
    try:
        family = psutil.Process(pid)
        for process in (family, *family.children(recursive=True)):
            total += process.memory_info().rss
            times = process.cpu_times()
            used[process.pid] = times.user + times.system
    except psutil.Error:
        return total
    return total


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
