"""The sweep: files of dead writers are finished, those of live ones left alone, and all kept within a limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.telemetry.files import LiveFile
from penstock.telemetry.frames import frame
from penstock.telemetry.layout import FileName, partition
from penstock.telemetry.sweep import sweep
from tests.penstock.telemetry.reading import lines, visible

PLENTY = 2**40


def leave(root: Path, begun: int, data: bytes, finished: bool = False, node: str = "n") -> Path:
    """Write a file as a dead writer leaves it; return its path."""
    directory = partition(root, "depth", 1)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / str(FileName(node, "console.0.1", begun, finished))
    path.write_bytes(data)
    return path


@settings(max_examples=50, deadline=None)
@given(count=st.integers(0, 3), rest=st.integers(0, 10_000))
def test_a_file_of_a_dead_writer_is_cut_at_its_last_whole_frame(
    tmp_path_factory: pytest.TempPathFactory, count: int, rest: int
) -> None:
    root = tmp_path_factory.mktemp("t")
    frames = [frame([b"%d\n" % number, b"more\n"]) for number in range(count + 1)]
    torn = frames[count][: rest % len(frames[count])]
    path = leave(root, 1, b"".join(frames[:count]) + torn)
    os.utime(path, (1, 1))
    sweep(root, {"n"}, PLENTY)
    assert not path.exists()
    found = visible(root, "depth")
    assert [line for path in found for line in lines(path)] == [
        line for number in range(count) for line in (b"%d" % number, b"more")
    ]
    assert len(found) == (count > 0)


def test_a_file_that_is_written_is_left_alone(tmp_path: Path) -> None:
    file = LiveFile(partition(tmp_path, "depth", 1), FileName("n", "console.0.1", 1, True))
    sweep(tmp_path, {"n"}, PLENTY)
    file.append(frame([b"1\n"]))
    sweep(tmp_path, {"n"}, PLENTY)
    assert not visible(tmp_path, "depth")
    file.append(frame([b"2\n"]))
    file.finish()
    (path,) = visible(tmp_path, "depth")
    assert lines(path) == [b"1", b"2"]


def test_a_new_file_that_is_not_locked_yet_is_left_alone(tmp_path: Path) -> None:
    path = leave(tmp_path, 1, b"")
    sweep(tmp_path, {"n"}, PLENTY)
    assert path.exists()


def test_what_is_another_nodes_is_left_alone(tmp_path: Path) -> None:
    other = leave(tmp_path, 1, frame([b"1\n"]), node="other")
    finished = leave(tmp_path, 2, bytes(1000), finished=True, node="other")
    assert sweep(tmp_path, {"n"}, 1) == 0
    assert other.exists() and finished.exists()


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(0, 50), max_size=8), limit=st.integers(0, 200))
def test_the_oldest_files_go_until_the_rest_is_within_the_limit(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], limit: int
) -> None:
    root = tmp_path_factory.mktemp("t")
    paths = [leave(root, begun, bytes(size), finished=True) for begun, size in enumerate(sizes)]
    left = sweep(root, {"n"}, limit)
    kept = [path for path in paths if path.exists()]
    assert left == sum(path.stat().st_size for path in kept) <= limit
    assert kept == paths[len(paths) - len(kept) :]
    gone = len(paths) - len(kept)
    assert gone == 0 or sum(sizes[gone - 1 :]) > limit
