"""Checks of the clocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.doctor import clocks
from ops.doctor.finding import Level


@pytest.mark.parametrize(("state", "level"), [(0, Level.OK), (5, Level.ADVICE), (-1, Level.OK)])
def test_a_clock_that_nobody_keeps_right(state: int, level: Level) -> None:
    assert clocks.synchronized(state).level is level


def test_the_kernel_is_asked_and_its_clock_left_alone() -> None:
    assert clocks.synchronized().check == "clock"


@pytest.mark.parametrize(("took", "level"), [(40.0, Level.OK), (900.0, Level.ADVICE)])
def test_a_clock_that_is_read_slowly(tmp_path: Path, took: float, level: Level) -> None:
    (tmp_path / "source").write_text("hpet\n")
    found = clocks.readings(took, tmp_path / "source")
    assert found.level is level
    assert f"{took:.0f} ns (clock source hpet)" in found.text


def test_a_machine_without_names_of_clocks(tmp_path: Path) -> None:
    assert "clock source unknown" in clocks.readings(source=tmp_path / "none").text
