"""Signs of life from work that takes long."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.memory.gauges import Gauges
from penstock.process import progress
from penstock.process.progress import Progress
from penstock.process.pulse import Pulse


def test_rows_that_go_by_are_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(progress, "CHECK_EVERY", 10)
    with Gauges.create(tmp_path / "g", epoch=1, acceptors=1, shards=1, queues=1, pid=os.getpid()) as gauges:
        beats = set()
        for row in Progress(Pulse(gauges, "router", 0, 1), "it is being read", "rows").through(range(35)):
            assert row in range(35)
            beats.add(gauges.last_beat("router", 0, 1)[0])
    assert 2 <= len(beats) <= 4
