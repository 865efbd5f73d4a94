"""The benchmark of telemetry: a run against a real broker gives its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from load.node import LocalNode
from load.telemetry_cost import Queues, cost
from tests.waiting import wait_for


@pytest.mark.broker
def test_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TELEMETRY__FRAME_SECONDS", "0.1")
    with LocalNode(tmp_path) as node:
        queues = Queues(node, 20)
        wait_for(lambda: list((tmp_path / "data" / "telemetry" / "shard").rglob("*.zst")), what="the first frame")

        def recorded() -> dict[str, Any] | None:
            """Return the figures, or None: in so short a time the recorder may have got no CPU."""
            found = cost(node, tmp_path, queues, 5, 2)
            return found if found["bytes_per_second"] else None

        found = wait_for(recorded, what="rows that were written")
        queues.close()
        assert (found["queues"], found["busy"]) == (20, 5)
        assert found["cpu_percent"] >= 0 and found["pss_mib"] > 0
        assert found["bytes_per_second"] > 0
        wait_for(lambda: (state := node.flow_state("telemetry-0")) and state.depth, what="what was published")
