"""Files through Hadoop's classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.files import DamagedError, Files


def test_a_replaced_file_has_the_new_contents_and_leaves_nothing_aside(spark: SparkSession, tmp_path: Path) -> None:
    files, name = Files(spark), f"{tmp_path}/board.json"
    for text in ("old and long", "new"):
        files.replace(name, text.encode())
        assert files.read(name) == text
    assert {path.name for path in tmp_path.iterdir()} == {"board.json", ".board.json.crc"}


def test_a_file_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    files, name = Files(spark), f"{tmp_path}/deep/below/file"
    assert files.read(name) is None
    files.write(name, b"first")
    with pytest.raises(PipelineError, match="deep/below/file cannot be written: "):
        files.write(name, b"second")
    assert files.read(name) == "first"


def test_damage_is_told_from_other_failures(spark: SparkSession, tmp_path: Path) -> None:
    files, path = Files(spark), tmp_path / "file"
    files.write(str(path), b"as it was written")
    path.write_bytes(b"not as it was written")
    with pytest.raises(DamagedError, match="file cannot be read: "):
        files.read(str(path))
    with pytest.raises(PipelineError) as failed:
        files.read("nosuch:///file")
    assert not isinstance(failed.value, DamagedError)


def test_what_cannot_be_written_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="cannot be written: ") as failed:
        Files(spark).replace(f"{tmp_path}/file/board.json", b"x")
    assert "\n" not in str(failed.value)
