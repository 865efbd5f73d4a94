"""The Spark of the pipeline's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.conftest import on_one_worker, spark

__all__ = ["spark"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests of this directory that need Spark with those of the pipeline."""
    on_one_worker(items, Path(__file__).parent)
