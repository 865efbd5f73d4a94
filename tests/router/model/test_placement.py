"""Placement of queues: evenly spread, the same for ever, and with as few moves as possible."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.model.placement import place
from router.model.records import Placement

ROOT = Path(__file__).resolve().parents[3]

names = st.text(max_size=20)
shards = st.lists(st.integers(0, 300), min_size=1, max_size=12, unique=True)


@given(names, names, shards, st.integers(0, 300))
def test_one_more_shard_only_takes(vhost: str, queue: str, shards: list[int], added: int) -> None:
    before = place(vhost, queue, shards, {})
    assert place(vhost, queue, [*shards, added], {}) in (before, added)


@given(names, names, shards)
def test_one_less_shard_moves_only_its_own(vhost: str, queue: str, shards: list[int]) -> None:
    home = place(vhost, queue, shards, {})
    for gone in shards:
        left = [shard for shard in shards if shard != gone]
        if left and gone != home:
            assert place(vhost, queue, left, {}) == home


@given(names, names, st.permutations(range(6)))
def test_order_does_not_count(vhost: str, queue: str, shards: list[int]) -> None:
    assert place(vhost, queue, shards, {}) == place(vhost, queue, range(6), {})


@pytest.mark.parametrize("count", [2, 3, 8])
def test_even(count: int) -> None:
    share = Counter(place("/", f"queue-{number}", range(count), {}) for number in range(4000))
    assert len(share) == count
    assert all(0.85 < share[shard] / (4000 / count) < 1.15 for shard in range(count))


def test_the_same_in_every_process() -> None:
    """These values may never change, or stored queues would not be found."""
    expected = [4, 2, 3, 1, 2, 4, 1, 3, 2, 2, 1, 1]
    assert [place("/", f"q{number}", range(5), {}) for number in range(12)] == expected
    code = "from router.model.placement import place; print([place('/', f'q{n}', range(5), {}) for n in range(12)])"
    for seed in ("1", "2"):
        printed = subprocess.check_output([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, cwd=ROOT)
        assert printed.decode().strip() == str(expected)


def test_vhost_counts_and_does_not_run_into_the_name() -> None:
    assert len({place("ab", f"c{n}", range(4), {}) == place("a", f"bc{n}", range(4), {}) for n in range(50)}) == 2
    assert place("/", "\udcff", range(4), {}) in range(4)


def test_overrides() -> None:
    home = place("/", "q", range(4), {})
    other = (home + 1) % 4
    assert place("/", "q", range(4), {("/", "q"): Placement("/", "q", other)}) == other
    assert place("/", "p", range(4), {("/", "q"): Placement("/", "q", other)}) == place("/", "p", range(4), {})
    assert place("v", "q", range(4), {("/", "q"): Placement("/", "q", other)}) == place("v", "q", range(4), {})
    assert place("/", "q", range(4), {("/", "q"): Placement("/", "q", 4)}) == home


def test_no_shard() -> None:
    with pytest.raises(ValueError, match="empty"):
        place("/", "q", (), {})
