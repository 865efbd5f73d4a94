"""The first hour is walked from a clone of this repository, and timed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.twins import ROOT

STEPS = [
    "git clone", "make serve, until it is ready", "pip install pika", "penstock queue declare",
    "python produce.py, until it is held", "seen in the console, with the login",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(1800)  # it compiles, beside other tests
def test_the_way_to_a_held_producer(tmp_path: Path) -> None:
    picture = tmp_path / "held.png"
    done = subprocess.run(
        [sys.executable, "-m", "tests.first_hour", str(picture)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    steps = [line.split("s  ", 1)[1] for line in done.stdout.splitlines()]
    assert steps[:-1] == STEPS, done.stderr
    assert steps[-1].startswith("in all")
    assert picture.read_bytes().startswith(b"\x89PNG")
