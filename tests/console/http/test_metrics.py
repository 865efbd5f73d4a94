"""A real Prometheus scrapes a node in each of the ways that it may, and answers with the series of its queues."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3

from tests.console.http.node import GUEST, HttpBroker
from tests.ports import free_port
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[HttpBroker]:
    """Return a node that has two queues in a vhost, and one in another."""
    with HttpBroker(tmp_path) as broker:
        for vhost in ("orders", "other"):
            broker.call("vhost_add", name=vhost)
        for vhost, queue in (("orders", "in"), ("orders", "out"), ("other", "in")):
            assert broker.penstock("queue", "declare", queue, "--vhost", vhost).returncode == 0
        yield broker


def configuration(node: HttpBroker) -> dict[str, Any]:
    """Return a configuration of Prometheus with a job for each way."""
    metrics, api = (":".join(map(str, node.http(name))) for name in ("metrics", "api"))
    ways: dict[str, dict[str, Any]] = {
        "node": {},
        "queues": {"metrics_path": "/metrics/per-object"},
        "detailed": {
            "metrics_path": "/metrics/detailed",
            "params": {"vhost": ["orders"], "family": ["queue_metrics", "queue_coarse_metrics"]},
        },
        "user": {
            "metrics_path": "/metrics/per-object",
            "basic_auth": dict(zip(("username", "password"), GUEST, strict=True)),
            "static_configs": [{"targets": [api]}],
        },
        "stranger": {"static_configs": [{"targets": [api]}]},
    }
    jobs = [{"job_name": name, "static_configs": [{"targets": [metrics]}], **way} for name, way in ways.items()]
    return {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}


def test_prometheus_scrapes_a_node(tmp_path: Path, node: HttpBroker) -> None:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    file, port = tmp_path / "prometheus.yml", free_port()
    file.write_text(json.dumps(configuration(node)))  # JSON is YAML
    command = [
        program, f"--config.file={file}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (tmp_path / "prometheus.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as running:
        try:
            with closing(urllib3.HTTPConnectionPool("127.0.0.1", port, retries=False)) as pool:
                up = {"node": "1", "queues": "1", "detailed": "1", "user": "1", "stranger": "0"}
                wait_for(lambda: values(pool, "up", "job") == up, what="scraped")
                of_queue = 'rabbitmq_queue_messages_ready{job="%s"}'
                for job, queues in (("queues", 3), ("detailed", 2), ("user", 3)):
                    found = wait_for(lambda of=of_queue % job: series(pool, of), what=job)
                    assert len(found) == queues, found
                assert {each["metric"]["vhost"] for each in series(pool, of_queue % "detailed")} == {"orders"}
                (of_all,) = series(pool, of_queue % "node")
                assert "queue" not in of_all["metric"]
        finally:
            running.terminate()


def series(pool: urllib3.HTTPConnectionPool, query: str) -> list[dict[str, Any]]:
    """Return the series that answer a query; none while Prometheus starts."""
    try:
        answer = pool.request("GET", f"/api/v1/query?{urlencode({'query': query})}")
        found: list[dict[str, Any]] = answer.json()["data"]["result"]
    except (urllib3.exceptions.HTTPError, ValueError, KeyError):
        return []
    return found


def values(pool: urllib3.HTTPConnectionPool, query: str, label: str) -> dict[str, str]:
    """Return the values that answer a query, by a label."""
    return {each["metric"][label]: each["value"][1] for each in series(pool, query)}
