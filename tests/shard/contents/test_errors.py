"""Errors of a store: their text for the log, and the ones that are damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from shard.contents.errors import DamagedError, StoreError


def test_the_text_says_which_store_and_why_and_the_reason_only_why() -> None:
    error = StoreError(Path("/data/shards/3"), "no space left on device")
    assert str(error) == "/data/shards/3: no space left on device"
    assert (error.path, error.reason) == (Path("/data/shards/3"), "no space left on device")


def test_damage_is_an_error_of_the_store_but_a_refusal_is_no_damage() -> None:
    damaged = DamagedError(Path("store"), "message 7: checksum")
    assert str(damaged) == "store: message 7: checksum"
    with pytest.raises(StoreError):
        raise damaged
    assert not isinstance(StoreError(Path("store"), "it is missing"), DamagedError)


def test_each_damaged_record_has_a_place_of_its_own() -> None:
    """`key` and `spilled` are set where a segment is read: other damage has no key."""
    segment, other = DamagedError(Path("store"), "segment"), DamagedError(Path("store"), "sums")
    segment.key, segment.spilled = b"key", True
    assert (other.key, other.spilled) == (None, False)
