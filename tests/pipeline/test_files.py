"""Files through Hadoop's classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.files import Files


def test_a_replaced_file_has_the_new_contents_and_leaves_nothing_aside(spark: SparkSession, tmp_path: Path) -> None:
    files, name = Files(spark), f"{tmp_path}/_SUCCESS"
    for text in ("old and long", "new"):
        files.replace(name, text.encode())
        assert files.read(name) == text
    assert {path.name for path in tmp_path.iterdir()} == {"_SUCCESS", "._SUCCESS.crc"}
    files.write(name, b"written over")
    assert files.read(name) == "written over"


def test_what_cannot_be_written_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="cannot be written: ") as failed:
        Files(spark).replace(f"{tmp_path}/file/_SUCCESS", b"x")
    assert "\n" not in str(failed.value)
