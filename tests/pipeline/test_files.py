"""Files through Hadoop's classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.files import DamagedError, Files


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
    with pytest.raises(DamagedError, match="file is damaged: "):
        files.read(str(path))
    with pytest.raises(PipelineError) as failed:
        files.read("nosuch:///file")
    assert not isinstance(failed.value, DamagedError)


@pytest.mark.parametrize("operation", ["matching", "size", "read", "parquet_rows", "make_directory", "delete"])
def test_a_failure_is_one_line(spark: SparkSession, operation: str) -> None:
    with pytest.raises(PipelineError, match="nosuch:///file is on no file system that Spark knows: ") as failed:
        getattr(Files(spark), operation)("nosuch:///file")
    assert "\n" not in str(failed.value)


def test_a_file_is_moved(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark)
    files.make_directory(f"{tmp_path}/below")
    files.write(f"{tmp_path}/one", b"contents")
    files.move(f"{tmp_path}/one", f"{tmp_path}/below/other")
    assert (files.read(f"{tmp_path}/one"), files.read(f"{tmp_path}/below/other")) == (None, "contents")
    with pytest.raises(PipelineError, match="one cannot be moved to "):
        files.move(f"{tmp_path}/one", f"{tmp_path}/below/another")
