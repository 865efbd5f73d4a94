"""The file that shows how far an upgrade has come."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.upgrade.progress import PROGRESS_FILE, Progress, Stage


def test_what_was_stored_is_loaded(tmp_path: Path) -> None:
    assert Progress.load(tmp_path) is None, "no upgrade so far"
    for progress in (Progress(1, Stage.LOADING), Progress(2, Stage.FAILED, "7", "shard 0 does not start")):
        progress.store(tmp_path)
        assert Progress.load(tmp_path) == progress
    assert [path.name for path in tmp_path.iterdir()] == [PROGRESS_FILE]


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / PROGRESS_FILE).write_text("{")
    with pytest.raises(ValueError, match="property name"):
        Progress.load(tmp_path)
