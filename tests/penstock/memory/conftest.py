"""Gauges for tests, in shared memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.memory.gauges import Gauges
from tests.penstock.memory.gauges_file import make


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as path:
        yield Path(path)


@pytest.fixture
def path(directory: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    path = directory / f"{request.node.name[:80].replace('/', '-')}.gauges"
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def gauges(path: Path) -> Iterator[Gauges]:
    with make(path) as gauges:
        yield gauges


@pytest.fixture(scope="module")
def pair(directory: Path) -> Iterator[tuple[Gauges, Gauges]]:
    """Yield two mappings of one file."""
    path = directory / "pair.gauges"
    with make(path) as one, Gauges.open(path) as other:
        yield one, other
