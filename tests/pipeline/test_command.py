"""The commands: a mistake is one line before Spark is started; a correct command runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import command
from pipeline.errors import PipelineError
from tests.pipeline import live
from tests.pipeline.day import SINCE, UNTIL, Day
from tests.pipeline.jobs.test_rebalance_inputs import plain_rebalance_inputs
from tests.pipeline.tables import same

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, timeout: float = 600, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["report", "--telemetry", "/t"], "no output given: use --html FILE, --json FILE or both"),
        (["report", "--telemetry", "/t", "--html", "x", "--from", "soon"], "'soon' is not a time"),
        (["report", "--telemetry", "/t", "--html", "x", "--to", "2026-01-01", "--from", "2026-01-02"], "is not before"),
        (["inputs", "--telemetry", "/t", "--output", "-", "--conf", "memory=3"], "--conf memory=3: write spark."),
        (["compact", "--telemetry", "/t", "--grace", "later"], "'later' is not a time"),
        (["alerts", "--telemetry", "/t", "--checkpoint", "/c", "--url", "amqp://127.0.0.1:1/"], "no alert can be"),
        (["report"], "Missing option '--telemetry'"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(arguments: list[str], complaint: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("pipeline: ") and complaint in line


def test_no_java_is_one_line(tmp_path: Path) -> None:
    done = run("inputs", "--telemetry", str(tmp_path), "--output", "-", PATH=str(tmp_path), JAVA_HOME="")
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "pipeline: Spark needs Java 17 or newer: there is none on the PATH, and JAVA_HOME is not set"
    )


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "EXTRA", ("pyspark", "no_such_module", "no_such_package"))
    with pytest.raises(
        PipelineError, match=r"not installed: no_such_module, no_such_package: pip install 'penstock\[pipeline\]'"
    ):
        command.inputs("/t", Path("-"))


def test_times() -> None:
    begin, end = command._range("2026-11-20T11:00", "2026-11-20T12:20:00+01:00")
    assert (begin, end) == (SINCE, UNTIL)
    begin, end = command._range("90m", "2026-11-20T11:20")
    assert (begin, end) == (UNTIL - 5_400_000_000, UNTIL)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_inputs_for_a_plan_by_spark_submit(day: Day, tmp_path: Path) -> None:
    """The inputs are computed as on a cluster, by the file that `spark-submit` is given."""
    import pyspark

    from penstock import programs

    live.write_day(tmp_path / "telemetry", day)
    output = tmp_path / "inputs.json"
    submit = Path(pyspark.__path__[0]) / "bin" / "spark-submit"
    times = ("--from", "2026-11-20T11:00", "--to", "2026-11-20T11:20")
    done = subprocess.run(
        [str(submit), "--master", "local[1]", str(programs.__file__), "pipeline", "inputs",
         "--telemetry", str(tmp_path / "telemetry"), "--output", str(output), *times],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())["queues"]
    expected = plain_rebalance_inputs(day.depth, day.since, day.until)
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        assert all(same(value, other[name]) for name, value in row.items())
