"""Spark sessions: this module and its callers decide where jobs run, never a job.

A master that `spark-submit` or `spark-defaults.conf` names is used; without one, jobs run on all cores of this machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

import penstock
import pipeline
from penstock import telemetry
from pipeline.errors import PipelineError, first_line

JAVA_LEAST = 17
"""The version that Spark 4 needs."""
LOCAL_MASTER = "local[*]"
LOCAL_PARTITIONS = (4, 8)
"""Fewest and most partitions of a shuffle on one machine: Spark's 200 cost more than small jobs do."""

ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
DEFAULTS = {
    # Queues come sorted by name, thousands in a part: beyond a number of groups (128 by default) Spark would sort all
    # rows again. The memory that a task needs instead is bounded by what it reads.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "65536",
    # Rows of some queues are found by the index of pages (`pipeline.ranges`): beyond a number of names (10 by default)
    # Spark would look for those between the first and the last name.
    "spark.sql.parquet.pushdown.inFilterThreshold": "1000",
    "spark.sql.files.maxPartitionBytes": "8m",
    "spark.sql.files.openCostInBytes": "512k",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    "spark.ui.enabled": "false",
    "spark.log.level": "FATAL",  # Spark would print pages of Java for each error that is one line here
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
LOCAL = {
    # Cached frames get as few partitions as suit their size: each partition costs each later job a task.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    "spark.driver.memory": "2g",
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "32",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "8m",
    "spark.sql.files.openCostInBytes": "64k",  # local files open fast: put more of them into a task
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",  # listing local files needs no job
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

LITTLE_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""For jobs that work in Python: Java's optimizing compiler would cost more than it saves. Without it the code cache
would be 48 MiB instead of 240, which Spark's generated code can fill; then the JVM ends.
"""
LOCAL_LITTLE_JAVA = {"spark.driver.extraJavaOptions": LITTLE_JAVA}
"""For such jobs on one machine."""


def open_session(
    application: str,
    master: str | None = None,
    configuration: Mapping[str, str] | None = None,
    local: Mapping[str, str] | None = None,
) -> SparkSession:
    """Open a session of that name. PipelineError if there is no usable Java, or Spark cannot be started.

    `configuration` has Spark's own keys, which override the settings of this module except the time zone. `local` has
    such keys for jobs on this machine, which override the other settings made for it here.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # set by spark-submit, which already runs Java
        require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(application)
    for key, value in merged_configuration(master, configuration or {}, submitted_master(), local).items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:  # errors of py4j and Spark have no common base
        raise PipelineError(f"Spark did not start: {first_line(error)}") from error
    if not str(session.sparkContext.master).startswith("local"):
        session.sparkContext.addPyFile(str(pack_code(Path(tempfile.mkdtemp(prefix="penstock-pipeline-")))))
    return session


def pack_code(directory: Path) -> Path:
    """Pack the code of jobs as a zip file, for machines where it is not installed."""
    with zipfile.ZipFile(directory / "penstock-pipeline.zip", "w") as archive:
        for package in (penstock, telemetry, pipeline):
            base = Path(package.__path__[0])
            top = base.parents[len(package.__name__.split(".")) - 1]
            for path in sorted(base.glob("*.py" if package is penstock else "**/*.py")):
                archive.write(path, path.relative_to(top))
    return directory / "penstock-pipeline.zip"


def merged_configuration(
    master: str | None, configuration: Mapping[str, str], submitted: str | None, local: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return a session's configuration; the master is `master`, else the one submitted, else this machine."""
    chosen = master or configuration.get("spark.master") or submitted or LOCAL_MASTER
    here = {}
    if chosen.startswith("local"):
        fewest, most = LOCAL_PARTITIONS
        partitions = min(max(2 * len(os.sched_getaffinity(0)), fewest), most)
        here = {**LOCAL, **(local or {}), "spark.sql.shuffle.partitions": str(partitions)}
    bar = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    return {**DEFAULTS, **bar, **here, **configuration, **ALWAYS, "spark.master": chosen}


def submitted_master() -> str | None:
    """Return the master that spark-submit was given or spark-defaults.conf names; None without either."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        master: str | None = SparkConf().get("spark.master", None)
        return master
    directory = os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME", ""), "conf")
    return master_in(Path(directory) / "spark-defaults.conf")


def master_in(defaults: Path) -> str | None:
    """Return the master that a spark-defaults.conf names; None if it names none or does not exist."""
    try:
        text = defaults.read_text()
    except OSError:
        return None
    found = re.findall(r"^\s*spark\.master[\s=:]+(\S+)", text, re.MULTILINE)
    return found[-1] if found else None


def require_java() -> None:
    """Raise PipelineError unless there is a Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    where = f"in JAVA_HOME={home}" if home else "on the PATH, and JAVA_HOME is not set"
    if java is None:
        raise PipelineError(f"Spark needs Java {JAVA_LEAST} or newer: there is none {where}")
    version = java_version([java, "-version"])
    if version < JAVA_LEAST:
        raise PipelineError(f"Spark needs Java {JAVA_LEAST} or newer: {java} is {version}")


def java_version(command: Sequence[str]) -> int:
    """Return the version that `java -version` prints: 17 for "17.0.2", 8 for "1.8.0_292". PipelineError if it prints
    none.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PipelineError(f"{command[0]} does not run: {error}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if found is None:
        raise PipelineError(f"{command[0]} prints no version: {first_line(done.stderr or done.stdout)}")
    return int(found[1])
