"""Queries that are killed and restarted: nothing is lost, and no more than allowed is repeated."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from load.node import LocalNode
from load.spark_cluster import cluster
from load.spark_source import ROOT, Progress, answer, fill, query, read_by_stream, sound, url, watch

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("java") is None, reason="Java is missing"),
]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LocalNode]:
    with LocalNode(tmp_path) as node:
        yield node


@pytest.mark.slow
@pytest.mark.parametrize("leases", [0, 2])
def test_a_killed_query_loses_nothing_and_repeats_a_batch_at_most_or_nothing(
    node: LocalNode, tmp_path: Path, leases: int
) -> None:
    count, rows = 6000, 1000
    fill(node, "q", count)
    found = read_by_stream(node, "q", tmp_path, "local[2]", count, 1, leases=leases, maxRows=rows)
    assert sound(found, leases, rows), found


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("leases", [0, 2])
def test_a_million_messages_by_a_query_that_is_killed_twice(node: LocalNode, tmp_path: Path, leases: int) -> None:
    count, rows = 1_000_000, 30_000
    fill(node, "q", count)
    found = read_by_stream(node, "q", tmp_path, "local[2]", count, 2, leases=leases, maxRows=rows)
    assert sound(found, leases, rows), found


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_an_executor_that_dies_loses_nothing_and_repeats_nothing(node: LocalNode, tmp_path: Path) -> None:
    count = 30_000
    fill(node, "q", count)
    options = (f"url={url(node)}", "queue=q", "leases=2", "maxRows=3000")
    with (
        cluster(tmp_path, workers=2, python_path=ROOT) as (master, workers),
        query(tmp_path, "drain", str(tmp_path), master, *options) as process,
    ):
        progress = Progress(node, "q")
        watch(process, tmp_path, progress, count // 2)
        assert all(len(worker.family()) > 1 for worker in workers), "one of them has no executor"
        workers[1].kill()
        watch(process, tmp_path, progress, 0)
        found = answer(process, tmp_path)
    assert found == {"rows": count, "numbers": count, "least": 0, "greatest": count - 1}
