"""The place where jobs run, and the error if they cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import session
from pipeline.errors import PipelineError

ROOT = Path(__file__).resolve().parents[2]


def fake_java(directory: Path, says: str) -> Path:
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("says", "version"),
    [('openjdk version "17.0.21" 2026-11-17', 17), ('java version "1.8.0_292"', 8), ('openjdk version "21" 2023', 21)],
)
def test_versions_of_java(tmp_path: Path, says: str, version: int) -> None:
    assert session.java_version([str(fake_java(tmp_path, says) / "bin/java"), "-version"]) == version


def test_no_java_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PipelineError, match="needs Java 17 or newer: there is none on the PATH"):
        session.require_java()


def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, 'openjdk version "11.0.2"')))
    with pytest.raises(PipelineError, match=r"needs Java 17 or newer: .*bin/java is 11"):
        session.require_java()


def test_a_java_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "no such thing")))
    with pytest.raises(PipelineError, match="prints no version: no such thing"):
        session.require_java()


def test_who_says_where_jobs_run(tmp_path: Path) -> None:
    defaults = tmp_path / "spark-defaults.conf"
    assert session.master_in(defaults) is None
    defaults.write_text("# spark.master local\nspark.executor.memory 1g\nspark.master   yarn\n")
    assert session.master_in(defaults) == "yarn"
    assert session.merged_configuration(None, {}, None)["spark.master"] == "local[*]"
    assert session.merged_configuration(None, {}, "yarn")["spark.master"] == "yarn"
    assert session.merged_configuration("local[2]", {}, "yarn")["spark.master"] == "local[2]"
    assert session.merged_configuration(None, {"spark.master": "spark://a:1"}, "yarn")["spark.master"] == "spark://a:1"


def test_what_is_configured_counts_but_for_the_time_zone() -> None:
    results = {"spark.driver.memory": "9g", "spark.sql.session.timeZone": "Mars"}
    merged = session.merged_configuration("local[1]", results, None)
    assert merged["spark.driver.memory"] == "9g"
    assert merged["spark.sql.session.timeZone"] == "UTC"
    assert "spark.driver.bindAddress" not in session.merged_configuration("yarn", {}, None)


def test_it_reads_no_clock_of_this_machine(spark: SparkSession) -> None:
    (row,) = spark.sql("select cast(timestamp_micros(0) as string), current_timezone()").collect()
    assert tuple(row) == ("1970-01-01 00:00:00", "UTC")


def test_the_pipeline_needs_nothing_of_a_broker() -> None:
    """A cluster has neither the broker's compiled code nor its dependencies."""
    code = (
        "import pkgutil, importlib, sys, pipeline\n"
        "for found in pkgutil.walk_packages(pipeline.__path__, 'pipeline.'):\n"
        "    if not found.name.endswith('__main__'): importlib.import_module(found.name)\n"
        "print(*sorted(name for name in sys.modules if name.startswith('penstock')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, env=os.environ
    )
    assert set(done.stdout.split()) <= {
        *("penstock", "penstock.telemetry", "penstock.telemetry.schema"),
        *("penstock.text", "penstock.text.durations", "penstock.text.amounts"),
    }


def test_what_is_for_this_machine_is_for_no_other() -> None:
    key, here = "spark.driver.extraJavaOptions", session.LOCAL_LITTLE_JAVA
    assert session.merged_configuration(None, {}, None, here)[key] == here[key]
    assert session.merged_configuration(None, {key: "-Xint"}, None, here)[key] == "-Xint"
    assert key not in session.merged_configuration("yarn", {}, None, here)
    assert key not in session.merged_configuration(None, {}, None)
