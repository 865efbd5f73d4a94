"""The check of a store while it is written: nothing sound is reported as damaged, and the file does not grow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ops.store import check as checking
from ops.store.check import check
from tests.ops.store.making import fill
from tests.ops.store.writing import written


def in_pieces(monkeypatch: pytest.MonkeyPatch, between: Callable[[], object]) -> list[int]:
    """Make a check release its snapshot after each record and call `between`; return a list with one item a piece."""
    pieces: list[int] = []

    def let_go(live: bool) -> checking.Over:
        assert live
        pieces.append(1)
        between()
        return lambda: True

    monkeypatch.setattr(checking, "_snapshot_is_over", let_go)
    return pieces


def test_what_changes_between_two_pieces_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fill(tmp_path, 0, {7: 9, 8: 30, 9: 60})
    with written(path) as write:
        write(30)
        pieces = in_pieces(monkeypatch, lambda: write(1))
        found = check(path, 0, live=True)
    assert found.first_problems == []
    assert found.messages > 100
    assert len(pieces) > 40


def test_the_file_does_not_grow_as_long_as_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fill(tmp_path, 0, {9: 300})
    with written(path) as write:
        write(60)
        before = (path / "data.mdb").stat().st_size
        pieces = in_pieces(monkeypatch, lambda: write(2))
        assert check(path, 0, live=True).problems == 0
        assert (path / "data.mdb").stat().st_size - before < len(pieces) * 60_000 / 2
