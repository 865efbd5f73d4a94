"""The comparison of stop and go with pace: the summary of a recording, and its plot."""

from __future__ import annotations

from pathlib import Path

import pytest

from load.pacing import describe, draw, summarize
from load.recording import Recording, Sample


def recorded() -> Recording:
    """Return a recording with depths of 100 and 300 in turn and a consumer that gets 900 messages a second."""
    recording = Recording()
    recording.samples += [
        Sample(at=at / 10, depth=100 + at % 2 * 200, saturated=False, published=0, received=90 * at, held="", epoch=0)
        for at in range(60)
    ]
    return recording


def test_what_a_recording_comes_to() -> None:
    run = summarize("marks", recorded(), 1000)
    assert (run.mean, run.deviation) == (200, 100)
    assert run.idle == pytest.approx(0.1)
    assert run.depths[0] == (0, 100)
    assert describe(run) == "marks: depth 200 on average, standard deviation 100; consumer idle 10.0 % of the time"


def test_it_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    runs = [summarize(name, recorded(), 1000) for name in ("marks", "pace")]
    draw(runs, tmp_path / "pace.png")
    assert (tmp_path / "pace.png").read_bytes().startswith(b"\x89PNG")
