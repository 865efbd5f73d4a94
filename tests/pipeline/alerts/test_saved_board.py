"""The saved states of a board: the latest complete one is read, and only that is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.alerts.saved_board import SavedBoard
from pipeline.errors import PipelineError
from pipeline.files import Files


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("."))


def test_the_latest_state_is_read_and_kept(spark: SparkSession, tmp_path: Path) -> None:
    saved = SavedBoard(Files(spark), str(tmp_path))
    assert saved.read() is None
    for number in range(3):
        saved.write(f'{{"state": {number}}}')
        assert saved.read() == f'{{"state": {number}}}'
    again = SavedBoard(Files(spark), str(tmp_path))
    assert again.read() == '{"state": 2}'
    again.write('{"state": 3}')
    assert names(tmp_path) == ["board-000000004.json"]


@pytest.mark.parametrize("checked", [True, False])
def test_a_torn_state_is_passed_over(spark: SparkSession, tmp_path: Path, checked: bool) -> None:
    files = Files(spark)
    SavedBoard(files, str(tmp_path)).write('{"state": 1}')
    files.write(f"{tmp_path}/board-000000002.json", b'{"state": 2}')
    (tmp_path / "board-000000002.json").write_text('{"sta')
    if not checked:
        (tmp_path / ".board-000000002.json.crc").unlink()
    saved = SavedBoard(files, str(tmp_path))
    assert saved.read() == '{"state": 1}'
    saved.write('{"state": 3}')
    assert names(tmp_path) == ["board-000000003.json"]


def test_a_state_that_cannot_be_written_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="cannot be written: ") as failed:
        SavedBoard(Files(spark), f"{tmp_path}/file").write("{}")
    assert "\n" not in str(failed.value)
