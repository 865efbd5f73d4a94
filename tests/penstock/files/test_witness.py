"""Witnesses of stores: their records of commits, and their complaints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.files.witness import Witness


def test_a_store_that_nobody_has_seen(tmp_path: Path) -> None:
    witness = Witness(tmp_path, "shard.0", 7)
    assert witness.seen() is None
    assert witness.complaint(None, 0) is None
    assert witness.complaint(7, 3) is None
    assert witness.complaint(8, 3) == "it is of another node"


def test_a_store_is_not_behind_its_witness(tmp_path: Path) -> None:
    witness = Witness(tmp_path, "shard.0", 7)
    for commits in (1, 2, 3):
        witness.record(commits, 1)
    witness.close()
    later = Witness(tmp_path, "shard.0", 7)
    assert later.complaint(7, 3) is None
    assert later.complaint(7, 4) is None
    assert later.complaint(7, 2) == "it is from another time: it has 2 commits, 3 were made"
    assert later.complaint(None, 0) == "it is from another time: it has 0 commits, 3 were made"
    assert Witness(tmp_path, "shard.0", 8).complaint(8, 3) == "it is of another node"


def test_after_a_start_of_the_system_what_was_flushed_counts(tmp_path: Path) -> None:
    witness = Witness(tmp_path, "shard.0", 7)
    witness._boot = b"another".ljust(36)
    witness.record(3, 2)
    witness.close()
    later = Witness(tmp_path, "shard.0", 7)
    assert later.complaint(7, 2) is None
    assert later.complaint(7, 1) == "it is from another time: it has 1 commits, 2 were made"


@pytest.mark.parametrize("place", [0, 20, 59, -1])
def test_a_witness_that_is_damaged(tmp_path: Path, place: int) -> None:
    witness = Witness(tmp_path, "shard.0", 7)
    witness.record(1)
    witness.close()
    data = bytearray(witness.path.read_bytes())
    data[place] ^= 1
    for damaged in (data, data[:-1], b""):
        witness.path.write_bytes(damaged)
        with pytest.raises(ValueError, match="is damaged"):
            witness.seen()


def test_a_disk_that_takes_a_part_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk takes only half of a record, the previous one still counts, and later ones are recorded again."""
    whole = os.pwrite
    witness = Witness(tmp_path, "shard.0", 7)
    for commits in range(1, 20):
        with monkeypatch.context() as patch:
            if commits % 5 not in {0, 1}:
                patch.setattr(os, "pwrite", lambda file, data, at: whole(file, data[: len(data) // 2], at))
            witness.record(commits)
        seen = witness.seen()
        assert seen is not None
        assert seen.commits == commits - max(commits % 5 - 1, 0)


def test_a_disk_that_takes_a_part_of_the_first_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Witness(tmp_path, "shard.0", 7).record(3)
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: whole(file, data[:30], at))
    with pytest.raises(OSError, match="No space left"):
        Witness(tmp_path, "shard.0", 7).record(4)
    seen = Witness(tmp_path, "shard.0", 7).seen()
    assert seen is not None
    assert seen.commits == 3


def test_a_store_that_is_to_be_gone(tmp_path: Path) -> None:
    witness = Witness(tmp_path, "shard.0", 7)
    witness.forget()
    witness.record(1)
    witness.forget()
    assert witness.seen() is None
