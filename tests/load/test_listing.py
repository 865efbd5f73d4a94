"""A client beside somebody who lists all queues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.console.http.node import HttpBroker
from tests.load.test_tls import run


@pytest.mark.broker
def test_a_list_beside_a_client(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    with HttpBroker(tmp_path) as node:
        api = f"http://{node.http().host}:{node.http().port}"
        course = ("--queues", "25", "--page-size", "10", "--messages", "300", "--seconds", "0.5", "--runs", "1")
        done = run("listing", "--a", node.address.url, "--a-api", api, *course, "--json", str(report))
        assert done.returncode == 0, done.stderr
        assert node.queues() == [], "its own queues are gone"
    (found,) = json.loads(report.read_text())["A"]
    assert found["without"]["messages"] > 0 and found["listed"]["messages"] > 0 and found["listed"]["pages"] > 0
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [["A", "without"], ["A", "listed"]]


@pytest.mark.broker
def test_a_management_api_that_is_none_is_said_in_one_line(tmp_path: Path) -> None:
    with HttpBroker(tmp_path) as node:
        api = f"http://{node.http('metrics').host}:{node.http('metrics').port}"
        course = ("--queues", "1", "--messages", "300", "--seconds", "0.5", "--runs", "1")
        done = run("listing", "--a", node.address.url, "--a-api", api, *course)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("listing: the management API does not answer: status 404")
        assert done.stderr.count("\n") == 1
        assert node.queues() == []
