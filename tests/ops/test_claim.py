"""The lock and the pointer of a data directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ops.claim import Pointer, claimed, is_claimed
from ops.errors import StartError


def test_one_at_a_time(tmp_path: Path) -> None:
    data = tmp_path / "a" / "data"
    assert not is_claimed(data)
    with claimed(data):
        assert is_claimed(data)
        with (
            pytest.raises(StartError, match=rf"{data} is in use by another broker \(pid {os.getpid()}\)"),
            claimed(data),
        ):
            pass
        assert is_claimed(data)
    assert not is_claimed(data)
    with claimed(data):
        pass


def test_looking_creates_nothing(tmp_path: Path) -> None:
    assert not is_claimed(tmp_path / "none")
    assert Pointer.load(tmp_path / "none") is None
    assert list(tmp_path.iterdir()) == []


def test_a_pointer_lives_as_long_as_the_claim(tmp_path: Path) -> None:
    pointer = Pointer(12, tmp_path / "run", tmp_path / "x.gauges")
    with claimed(tmp_path):
        pointer.store(tmp_path)
        assert Pointer.load(tmp_path) == pointer
    assert Pointer.load(tmp_path) is None
    with pytest.raises(ZeroDivisionError), claimed(tmp_path):
        _store_and_fail(pointer, tmp_path)
    assert Pointer.load(tmp_path) is None


def _store_and_fail(pointer: Pointer, data: Path) -> None:
    pointer.store(data)
    raise ZeroDivisionError


def test_leftovers_of_a_killed_node_go(tmp_path: Path) -> None:
    runtime, gauges = tmp_path / "run", tmp_path / "x.gauges"
    runtime.mkdir()
    (runtime / "node.json").touch()
    gauges.touch()
    data = tmp_path / "data"
    data.mkdir()
    Pointer(12, runtime, gauges).store(data)
    with claimed(data):
        assert not runtime.exists()
        assert not gauges.exists()
        assert Pointer.load(data) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": "x", "runtime": "r", "gauges": "g"}'])
def test_a_damaged_pointer_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "running.json").write_text(text)
    assert Pointer.load(tmp_path) is None


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    data = tmp_path / "file" / "data"
    with pytest.raises(StartError, match=f"cannot use the data directory {data}: Not a directory"), claimed(data):
        pass
