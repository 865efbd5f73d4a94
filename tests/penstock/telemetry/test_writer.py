"""Rows on their way to files: each is written, or counted as lost, and nobody waits."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.settings.sections import TelemetrySettings
from penstock.telemetry.schema import COMMON, PLACEMENT, TABLES
from penstock.telemetry.sweep import sweep
from penstock.telemetry.writer import Writer
from tests.penstock.telemetry.reading import Row, check_none_is_missing, rows, visible
from tests.waiting import PATIENCE, wait_for

HOUR = 3_600_000_000
QUICK: dict[str, Any] = {"frame_seconds": 0.05, "file_seconds": 0.1}
MOVED = {
    "vhost": "/", "queue": "q", "from_shard": 0, "to_shard": 1, "plan": None, "version": 7, "pause_ms": None,
    "messages": None, "bytes": None,
}  # fmt: skip


def writer(root: Path, process: str = "router.0.1", **changed: Any) -> Writer:
    return Writer(root, "n", 17, process, TelemetrySettings(**{**QUICK, **changed}))


def put(to: Writer, count: int, ts: int = HOUR, **facts: Any) -> None:
    for _ in range(count):
        to.put(PLACEMENT, ts, {**MOVED, **facts})


def close(to: Writer) -> None:
    """Close a writer and wait for its files: a process that ends waits only briefly, and the disk may be slow."""
    to.close()
    if to.thread is not None:
        to.thread.join(PATIENCE)
        assert not to.thread.is_alive()


@contextmanager
def no_file_larger_than(nbytes: int) -> Iterator[None]:
    """Cut short a write beyond this size and fail the next one, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_rows_are_there_after_the_end(tmp_path: Path) -> None:
    to = writer(tmp_path, file_seconds=60)
    put(to, 3)
    close(to)
    found = rows(tmp_path, "placement")
    assert len(found) == 3
    check_none_is_missing(found)
    common = {"v": 1, "ts": HOUR, "node": "n", "epoch": 17, "writer": "router.0.1", "seq": 1, "rows_lost": 0}
    assert found[0] == {**common, **MOVED}


def test_rows_are_there_in_time(tmp_path: Path) -> None:
    to = writer(tmp_path)
    put(to, 1)
    wait_for(lambda: visible(tmp_path, "placement"), what="a finished file")
    put(to, 1)
    wait_for(lambda: len(visible(tmp_path, "placement")) == 2, what="another one")
    close(to)
    check_none_is_missing(rows(tmp_path, "placement"))


def test_nothing_is_made_where_nothing_is_put(tmp_path: Path) -> None:
    writer(tmp_path / "telemetry").close()
    assert not (tmp_path / "telemetry").exists()


def test_a_file_is_finished_when_it_is_large(tmp_path: Path) -> None:
    to = writer(tmp_path, file_seconds=3600, file_bytes=64 * 1024, buffer_bytes=1 << 30)
    while not visible(tmp_path, "placement"):
        put(to, 1, queue=os.urandom(100).hex())
    close(to)
    check_none_is_missing(rows(tmp_path, "placement"))


def test_names_need_not_be_utf_8(tmp_path: Path) -> None:
    to = writer(tmp_path)
    put(to, 1, queue=b"caf\xe9".decode("utf-8", "surrogateescape"))
    close(to)
    assert [row["queue"] for row in rows(tmp_path, "placement")] == ["caf\ufffd"]


def test_what_the_buffer_has_no_room_for_is_counted(tmp_path: Path) -> None:
    to = writer(tmp_path, frame_seconds=60, buffer_bytes=64 * 1024)
    put(to, 1000)
    assert to.nbytes <= 64 * 1024
    taken = sum(len(batch.lines) for batch in to.waiting.values())
    to.write()  # as the thread does after `frame_seconds`
    put(to, 1)
    close(to)
    found = rows(tmp_path, "placement")
    assert [row["seq"] for row in found] == [*range(1, taken + 1), 1001]
    assert [row["rows_lost"] for row in found] == [0] * taken + [1000 - taken]


def test_a_disk_that_takes_nothing_costs_what_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "telemetry"
    root.touch()
    to = writer(root)
    put(to, 2)
    wait_for(lambda: to.dropped == 2, what="the first that are dropped")
    put(to, 3)
    wait_for(lambda: to.dropped == 5, what="those after")
    root.unlink()
    put(to, 1)
    close(to)
    assert [(row["seq"], row["rows_lost"]) for row in rows(root, "placement")] == [(6, 5)]
    reported = [line for line in capsys.readouterr().out.splitlines() if "telemetry" in line]
    assert len(reported) == 2 and "cannot be written" in reported[0] and "written again" in reported[1]


def test_a_write_that_is_cut_short_leaves_whole_frames(tmp_path: Path) -> None:
    to = writer(tmp_path, frame_seconds=60, file_seconds=3600)
    put(to, 5)
    to.write()
    with no_file_larger_than(300):
        put(to, 100)
        to.write()
    assert to.dropped == 100
    put(to, 1)
    close(to)
    found = rows(tmp_path, "placement")
    assert [(row["seq"], row["rows_lost"]) for row in found] == [*[(n, 0) for n in range(1, 6)], (106, 100)]
    assert len(visible(tmp_path, "placement")) == 2


def test_a_directory_that_is_removed_is_made_again(tmp_path: Path) -> None:
    to = writer(tmp_path, frame_seconds=60, file_seconds=3600)
    put(to, 1)
    to.write()
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    put(to, 1)
    to.write()
    assert to.dropped == 1
    put(to, 1)
    close(to)
    assert [(row["seq"], row["rows_lost"]) for row in rows(tmp_path, "placement")] == [(3, 1)]


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_whatever_is_put_is_written_once_and_where_it_belongs(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("t")
    to = writer(root, frame_seconds=60, file_seconds=3600)
    expected: dict[str, list[tuple[int, str]]] = {name: [] for name in TABLES}
    for number in range(data.draw(st.integers(0, 20))):
        table = data.draw(st.sampled_from(sorted(TABLES)))
        ts = data.draw(st.integers(0, 3 * HOUR))
        values = {"string": f"é{number}", "boolean": True, "double": 0.5}
        facts: Row = {
            column.name: None if column.nullable else values.get(column.type, number)
            for column in TABLES[table].columns[len(COMMON) :]
        }
        to.put(TABLES[table], ts, facts)
        expected[table].append((ts, next(value for value in facts.values() if value is not None)))
        if data.draw(st.booleans()):
            to.write()
    close(to)
    for table, wanted in expected.items():
        found = rows(root, table)
        check_none_is_missing(found)
        ordered = sorted(found, key=lambda row: row["seq"])
        first = next(column.name for column in TABLES[table].columns[len(COMMON) :] if not column.nullable)
        assert [(row["ts"], row[first]) for row in ordered] == wanted
    assert not [path for path in root.rglob(".*") if path.is_file()]


KILLED = """
import sys
from pathlib import Path
from penstock.settings.sections import TelemetrySettings
from penstock.telemetry.schema import PLACEMENT
from penstock.telemetry.writer import Writer
to = Writer(Path(sys.argv[1]), "n", 17, "router.0.1", TelemetrySettings(frame_seconds=0.05, file_seconds=3600))
number = 0
while True:
    number += 1
    to.put(PLACEMENT, 3_600_000_000, {"vhost": "/", "queue": str(pow(3, number, 10**60)), "from_shard": 0,
        "to_shard": 1, "plan": None, "version": number, "pause_ms": None, "messages": None, "bytes": None})
    if number % 1000 == 0:
        print(sum(file.size for file in list(to.files.open.values())), flush=True)
"""


def test_a_writer_that_is_killed_costs_its_last_frames_only(tmp_path: Path) -> None:
    """The file is not visible until it is swept; then it has all rows up to some last one."""
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        assert any(map(int, process.stdout)), "no frame that is whole"
        sweep(tmp_path, {"n"}, 2**40)
        assert not visible(tmp_path, "placement")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    sweep(tmp_path, {"n"}, 2**40)
    found = rows(tmp_path, "placement")
    kept = [row["seq"] for row in found if not row["rows_lost"]]
    assert kept[0] == 1 and len(found) >= 1
    assert [row["version"] for row in found] == [row["seq"] for row in found]
