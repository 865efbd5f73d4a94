from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from load.demo_clients import ProducerKind

pytest.importorskip("matplotlib")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.broker
@pytest.mark.parametrize("kind", [ProducerKind.CONFIRMS, ProducerKind.OBEYS])
def test_shows_a_producer_stopped_and_resumed(kind: ProducerKind, tmp_path: Path) -> None:
    """Five seconds on low marks: stops and resumes alternate, everything arrives, the plot is a picture."""
    plot = tmp_path / "plot.png"
    marks = ("--stop", "300", "--resume", "100", "--consumer-rate", "1000")
    run = subprocess.run(
        [sys.executable, "-m", "load.demo", "--seconds", "5", "--producer", kind, "--png", str(plot), *marks],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "\x1b" not in run.stdout
    turns = re.findall(r" (STOP|RESUME) ", run.stdout)
    assert turns[:4] == ["STOP", "RESUME", "STOP", "RESUME"]
    assert "every message arrived, in order and once" in run.stdout
    data = plot.read_bytes()
    assert data.startswith(PNG)
    width, height = struct.unpack_from("!II", data, 16)  # of the header chunk, which comes first
    assert width > 800 and height > 400
