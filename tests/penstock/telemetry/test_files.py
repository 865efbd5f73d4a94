"""Files that a process writes: readers see them whole, or not at all."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.telemetry.files import LiveFile, LiveFiles
from penstock.telemetry.frames import frame
from penstock.telemetry.layout import FileName, partition
from tests.penstock.telemetry.reading import lines, visible

HOUR = 472_222


def begin(root: Path, begun: int = 1) -> LiveFile:
    return LiveFile(partition(root, "depth", HOUR), FileName("n", "shard.0.1", begun, finished=True))


def hidden(root: Path) -> list[Path]:
    return sorted({path for path in root.rglob("*") if path.is_file()} - set(visible(root, "depth")))


def test_a_file_is_seen_once_it_is_finished(tmp_path: Path) -> None:
    file = begin(tmp_path)
    file.append(frame([b"1\n"]))
    file.append(frame([b"2\n"]))
    assert not visible(tmp_path, "depth") and hidden(tmp_path) == [file.path]
    file.finish()
    assert visible(tmp_path, "depth") == [file.finished] and not hidden(tmp_path)
    assert lines(file.finished) == [b"1", b"2"] and file.size == file.finished.stat().st_size


def test_a_file_without_rows_leaves_nothing(tmp_path: Path) -> None:
    begin(tmp_path).finish()
    assert not visible(tmp_path, "depth") and not hidden(tmp_path)


def test_an_unfinished_file_is_locked_until_its_writer_is_done(tmp_path: Path) -> None:
    file = begin(tmp_path)
    file.append(frame([b"1\n"]))
    with file.path.open("rb") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.finish()
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_file_is_never_written_by_two(tmp_path: Path) -> None:
    file = begin(tmp_path)
    with pytest.raises(FileExistsError):
        begin(tmp_path)
    begin(tmp_path, begun=2).finish()
    file.finish()


def test_a_file_that_was_removed_takes_no_more_rows(tmp_path: Path) -> None:
    file = begin(tmp_path)
    file.append(frame([b"1\n"]))
    file.path.unlink()
    with pytest.raises(FileNotFoundError, match="it was removed while it was written"):
        file.append(frame([b"2\n"]))
    with pytest.raises(FileNotFoundError):
        file.finish()


CUT = """
import resource, sys
from pathlib import Path
from penstock.telemetry.files import LiveFiles
files = LiveFiles(Path(sys.argv[1]), "n", "shard.0.1", 60.0, 1 << 20)
files.append("depth", 472_222, b"x" * 80)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, -1))
try:
    files.append("depth", 472_222, b"y" * 80)
except OSError:
    assert not files.open
    files.append("depth", 472_222, b"z" * 80)
    files.finish_all()
"""


def test_a_frame_that_the_disk_takes_in_part_is_taken_back(tmp_path: Path) -> None:
    """The frames before it are finished, and the next frame goes to a new file."""
    subprocess.run([sys.executable, "-c", CUT, str(tmp_path)], check=True, capture_output=True)
    assert sorted(path.read_bytes() for path in visible(tmp_path, "depth")) == [b"x" * 80, b"z" * 80]
    assert not hidden(tmp_path)


def test_there_is_one_file_for_each_table_and_hour(tmp_path: Path) -> None:
    files = LiveFiles(tmp_path, "n", "shard.0.1", file_seconds=60.0, file_bytes=1 << 20)
    for table, hour in (("depth", HOUR), ("depth", HOUR + 1), ("flow", HOUR), ("depth", HOUR)):
        files.append(table, hour, frame([b"1\n"]))
    assert files.open.keys() == {("depth", HOUR), ("depth", HOUR + 1), ("flow", HOUR)}
    files.finish_all()
    assert not files.open and len(visible(tmp_path, "flow")) == 1
    assert [(path.parent, len(lines(path))) for path in visible(tmp_path, "depth")] == [
        (partition(tmp_path, "depth", HOUR), 2), (partition(tmp_path, "depth", HOUR + 1), 1),
    ]  # fmt: skip


def test_files_are_due_by_age_or_by_size(tmp_path: Path) -> None:
    files = LiveFiles(tmp_path, "n", "shard.0.1", file_seconds=3600.0, file_bytes=100)
    assert files.due() is None
    files.append("depth", HOUR, b"x" * 99)
    files.append("flow", HOUR, b"x" * 100)
    assert 0 < (files.due() or 0) <= 3600
    files.finish_due()
    assert files.open.keys() == {("depth", HOUR)}
    files.file_seconds = 0.0
    assert files.due() == 0.0
    files.finish_due()
    assert not files.open and files.due() is None


def test_a_file_that_cannot_be_finished_does_not_keep_the_others_back(tmp_path: Path) -> None:
    files = LiveFiles(tmp_path, "n", "shard.0.1", file_seconds=60.0, file_bytes=1 << 20)
    for hour in (HOUR, HOUR + 1):
        files.append("depth", hour, frame([b"1\n"]))
    files.open["depth", HOUR].path.unlink()
    with pytest.raises(FileNotFoundError):
        files.finish_all()
    assert not files.open
    assert [path.parent for path in visible(tmp_path, "depth")] == [partition(tmp_path, "depth", HOUR + 1)]
