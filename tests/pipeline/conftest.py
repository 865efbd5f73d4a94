"""One Spark for all tests that need one: they form one group, so that only one worker starts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.session import open_session, require_java
from tests.pipeline.day import Day, made

SPARK_TIMEOUT = 600
"""Seconds that one of these tests may take: the first one starts Spark, and all wait while it compiles."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests of this directory that need Spark."""
    on_one_worker(items, Path(__file__).parent)


def on_one_worker(items: list[pytest.Item], directory: Path) -> None:
    """Group the tests below a directory that need Spark, and give them more time."""
    for item in items:
        if directory in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session on two cores. Its first start takes some seconds."""
    try:
        require_java()
    except PipelineError as error:
        pytest.skip(str(error))
    scratch = tmp_path_factory.mktemp("spark")
    session = open_session(
        "penstock tests",
        "local[2]",
        {
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.local.dir": str(scratch / "local"),
            "spark.ui.showConsoleProgress": "false",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def day() -> Day:
    """A small day of telemetry, always the same."""
    return made(seed=20261120)
