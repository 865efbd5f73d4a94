"""The node's clock across restarts of the node and of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.files import kept_clock
from penstock.files.kept_clock import RECORD_SECONDS, KeptClock, Noted, ahead
from penstock.node import clock

SECOND = 1_000_000
MOMENTS = st.integers(0, 10**17)


@given(MOMENTS, MOMENTS, MOMENTS, st.integers(0, 10**15), MOMENTS)
def test_within_a_boot_it_goes_as_time_does(boot: int, node: int, wall: int, passed: int, wall_then: int) -> None:
    noted = Noted("a", boot, node, wall)
    then = boot + passed
    assert then + ahead(noted, "a", then, wall_then) == node + passed


@given(MOMENTS, MOMENTS, MOMENTS, MOMENTS, MOMENTS)
def test_after_another_boot_it_goes_as_the_wall_clock_and_never_back(
    boot: int, node: int, wall: int, boot_then: int, wall_then: int
) -> None:
    then = boot_then + ahead(Noted("a", boot, node, wall), "b", boot_then, wall_then)
    assert then == node + max(wall_then - wall, 0)


def test_a_boot_that_is_younger_than_it_was_is_another_one() -> None:
    """The boot id is the same, as in a container whose kernel gives it another time since boot."""
    assert 50 + ahead(Noted("a", 100, 1000, 2000), "a", 50, 2070) == 1070


def test_without_anything_noted_it_is_the_wall_clock() -> None:
    assert 70 + ahead(None, "a", 70, 1234) == 1234


class Machine:
    """A machine whose clocks stand still until a test moves them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.boot, self.boot_us, self.wall_us = "first", 1000 * SECOND, 5_000_000 * SECOND
        monkeypatch.setattr(kept_clock, "boot_id", lambda: self.boot)
        monkeypatch.setattr(clock, "boot_us", lambda: self.boot_us)
        monkeypatch.setattr(clock, "wall_us", lambda: self.wall_us)

    def passes(self, seconds: float) -> None:
        self.boot_us += round(seconds * SECOND)
        self.wall_us += round(seconds * SECOND)

    def starts_again(self, boot: str, seconds: float) -> None:
        self.boot, self.boot_us = boot, 10 * SECOND
        self.wall_us += round(seconds * SECOND)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    before = clock.ahead_us()
    yield Machine(monkeypatch)
    clock.adopt(before)


def test_a_life(machine: Machine, tmp_path: Path) -> None:
    KeptClock(tmp_path).begin()
    assert clock.now_us() == machine.wall_us
    machine.passes(60)
    machine.wall_us += 3600 * SECOND
    assert clock.now_us() == machine.wall_us - 3600 * SECOND
    assert clock.wall_ahead_us() == 3600 * SECOND
    assert clock.as_wall({"since": 5.0, "until": None, "number": 7}, "since", "until") == {
        "since": 3605.0, "until": None, "number": 7,
    }  # fmt: skip
    KeptClock(tmp_path).keep()
    machine.passes(30)
    before = clock.now_us()
    KeptClock(tmp_path).begin()
    assert clock.now_us() == before
    machine.starts_again("second", 500)
    KeptClock(tmp_path).begin()
    assert clock.now_us() == before + 500 * SECOND
    machine.starts_again("third", -500)
    KeptClock(tmp_path).begin()
    assert clock.now_us() == before + 500 * SECOND


def test_it_is_noted_each_minute_and_when_the_clock_is_set(machine: Machine, tmp_path: Path) -> None:
    kept = KeptClock(tmp_path)
    kept.begin()
    first = kept_clock.read(tmp_path)
    machine.passes(RECORD_SECONDS - 1)
    machine.wall_us += SECOND // 2
    kept.keep()
    assert kept_clock.read(tmp_path) == first
    machine.wall_us += SECOND
    kept.keep()
    assert kept_clock.read(tmp_path) == (second := Noted.now()) != first
    kept.keep()
    machine.passes(RECORD_SECONDS)
    kept.keep()
    third = kept_clock.read(tmp_path)
    assert third and third.node_us == second.node_us + RECORD_SECONDS * SECOND


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"boot":"a","boot_us":"x","node_us":1,"wall_us":1}'])
def test_a_file_that_says_nothing(machine: Machine, tmp_path: Path, data: bytes) -> None:
    (tmp_path / kept_clock.FILE_NAME).write_bytes(data)
    with pytest.raises(ValueError, match=r"\w"):
        kept_clock.read(tmp_path)
    KeptClock(tmp_path).begin()
    assert clock.now_us() == machine.wall_us
    assert kept_clock.read(tmp_path) == Noted.now()


def test_a_directory_that_takes_nothing(machine: Machine, tmp_path: Path) -> None:
    KeptClock(tmp_path / "missing").begin()
    assert clock.now_us() == machine.wall_us
