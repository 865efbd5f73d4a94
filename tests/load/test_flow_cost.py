"""The benchmark of flow control: it writes valid AMQP, and a run against a real broker gives its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from load import flow_cost
from load.flow_cost import compare_throughput, held_cpu, rated_cpu, resumes
from load.node import LocalNode
from load.wire import table


def test_capabilities_are_a_table_of_their_own() -> None:
    flags = b"\x12connection.blockedt\x01"
    fields = b"\x01aS\0\0\0\x01b" + b"\x0ccapabilitiesF" + len(flags).to_bytes(4, "big") + flags
    assert table({"a": "b"}, ["connection.blocked"]) == len(fields).to_bytes(4, "big") + fields


@pytest.mark.broker
def test_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short run gives every figure; longer runs give better ones."""
    monkeypatch.setattr(flow_cost, "HELD_SECONDS", 0.5)
    monkeypatch.setattr(flow_cost, "REST_SECONDS", 0.5)
    with LocalNode(tmp_path) as node:
        cost = compare_throughput(node, 0.5, 1)
        assert cost["unlimited_per_second"] > 0 and cost["marks"]["throughput"] > 0 and cost["rates"]["cpu"] > 0
        assert cost["control"]["throughput"] > 0
        assert held_cpu(node, 5)["connections"] == 5
        assert rated_cpu(node, 12)["connections"] == 12
        answer = resumes(node, 20)
        assert 0 < answer["median_ms"] <= answer["percentile_95_ms"]
