"""The records of the gauges."""

from __future__ import annotations

from pathlib import Path

from penstock.memory.gauges import Gauges
from penstock.memory.records import STATE_NAMES


def test_document_has_the_states() -> None:
    text = (Path(__file__).parents[3] / "docs" / "gauges.md").read_text()
    assert ", ".join(f"{number} {name}" for number, name in enumerate(STATE_NAMES)) in text


def test_messages_that_have_left_a_queue(gauges: Gauges) -> None:
    gauges.queue_open(9, 3, "v", "n", 1)
    gauges.queue_write(9, 5, 2, 0, 0, 10, *[0] * 12)
    gauge = gauges.queue_read(9)
    assert gauge is not None and gauge.drained == 3
