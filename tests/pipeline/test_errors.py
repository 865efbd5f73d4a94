"""The error that commands report: one line to their user, and status 2; one line for errors of Spark."""

from __future__ import annotations

import sys

import pytest

from pipeline.__main__ import main
from pipeline.errors import file_of, is_read_failure, reason

PATH = "/t/depth/v=1/dt=2026-11-20/hour=11/node-1-odd-1.jsonl.zst"
SPACED = PATH.replace("node-1", "node 1")
DAMAGED = f"""An error occurred while calling o167.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://{PATH}.  SQLST
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:920)
Caused by: org.apache.spark.SparkException: something between
\t... 3 more
Caused by: com.github.luben.zstd.ZstdIOException: Truncated source
\tat com.github.luben.zstd.ZstdInputStreamNoFinalizer.readInternal(ZstdInputStreamNoFinalizer.java:209)
"""
GONE = f"[PATH_NOT_FOUND] Path does not exist: file:{PATH}. SQLSTATE: 42K03"
OTHER = """An error occurred while calling o1.count.
: org.apache.spark.SparkException: Job 3 cancelled part of cancelled job group x
\tat org.apache.spark.errors.SparkCoreErrors$.sparkJobCancelled(SparkCoreErrors.scala:1)
"""


def test_it_is_one_line_and_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["pipeline", "report", "--telemetry", "/t"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr() == ("", "pipeline: no output given: use --html FILE, --json FILE or both\n")


@pytest.mark.parametrize(
    ("text", "line", "file"),
    [
        (DAMAGED, f"{PATH} cannot be read: ZstdIOException: Truncated source", PATH),
        (DAMAGED.replace("node-1", "node%201"), f"{SPACED} cannot be read: ZstdIOException: Truncated source", SPACED),
        (GONE, f"{PATH} cannot be read: {GONE}", PATH),
        (OTHER, "SparkException: Job 3 cancelled part of cancelled job group x", None),
        ("", "Exception", None),
    ],
)
def test_an_error_of_spark_is_one_line_that_names_the_file(text: str, line: str, file: str | None) -> None:
    error = Exception(text)
    assert (reason(error), file_of(error), is_read_failure(error)) == (line, file, file is not None)
