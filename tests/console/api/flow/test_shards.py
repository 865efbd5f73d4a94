"""Shards, processes and recent courses over HTTP, on a real node."""

from __future__ import annotations

import pytest

from tests.console.http.node import HttpBroker
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def test_shards_and_courses_are_shown(node: HttpBroker) -> None:
    assert [each["shard"] for each in node.get("/api/shards").json] == [0, 1]
    wait_for(lambda: node.get("/api/shards").json[0]["cpu_percent"] is not None)
    assert wait_for(lambda: node.get("/api/history").json["at"])
    assert node.get("/api/history?minutes=1440").status == 200
    assert node.get("/api/history?minutes=1441").status == 400
    assert node.get("/api/rebalance").json["moves"] == []


def test_processes_are_shown_with_their_use_of_the_machine(node: HttpBroker) -> None:
    found = {(each["role"], each["index"]): each for each in node.get("/api/processes").json}
    places = [("supervisor", 0), ("router", 0), ("shard", 0), ("shard", 1), ("acceptor", 0), ("console", 0)]
    assert found.keys() >= set(places)
    assert all(each["memory"] > 0 and each["state"] == "ready" for each in found.values())
