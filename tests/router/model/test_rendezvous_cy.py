"""Weighted rendezvous hashing: shares, what moves, and the same choices compiled and not."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import both_ways, load_compiled, load_plain

MODULE = "router.model.rendezvous_cy"
bits = st.integers(0, 2**64 - 1)
members = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(bits, st.integers(1, 1000) | st.just(10**254)))


def made(module: Any, wanted: dict[str, tuple[int, int]]) -> Any:
    rendezvous = module.Rendezvous()
    for name, (seed, weight) in wanted.items():
        rendezvous.put(name, seed, float(weight))
    return rendezvous


@given(wanted=members, keys=st.lists(bits))
def test_compiled_and_plain_choose_alike(wanted: dict[str, tuple[int, int]], keys: list[int]) -> None:
    compiled, plain = (made(load(MODULE), wanted) for load in (load_compiled, load_plain))
    assert [compiled.choose(key) for key in keys] == [plain.choose(key) for key in keys]


@both_ways
@given(wanted=members, keys=st.lists(bits), shuffled=st.randoms(use_true_random=False), data=st.data())
def test_neither_order_nor_history_counts(
    load: Any, wanted: dict[str, tuple[int, int]], keys: list[int], shuffled: random.Random, data: st.DataObject
) -> None:
    former = made(load(MODULE), wanted)
    items = list(wanted.items())
    shuffled.shuffle(items)
    other = made(load(MODULE), {"gone": (5, 1000), **dict(items)})
    other.remove("gone")
    for name, (seed, weight) in items:
        other.put(name, seed, 7.0)
        other.put(name, seed, float(weight))
    if items and data.draw(st.booleans()):
        name, (seed, weight) = items[0]
        other.remove(name)
        other.put(name, seed, float(weight))
    assert [former.choose(key) for key in keys] == [other.choose(key) for key in keys]


@both_ways
@given(wanted=members.filter(len), keys=st.lists(bits, min_size=1), data=st.data())
def test_only_keys_of_the_member_that_goes_or_comes_move(
    load: Any, wanted: dict[str, tuple[int, int]], keys: list[int], data: st.DataObject
) -> None:
    rendezvous, name = made(load(MODULE), wanted), data.draw(st.sampled_from(sorted(wanted)))
    before = {key: rendezvous.choose(key) for key in keys}
    rendezvous.remove(name)
    after = {key: rendezvous.choose(key) for key in keys}
    assert all(after[key] == before[key] for key in keys if before[key] != name)
    assert name not in after.values()


@both_ways
@given(wanted=members.filter(len), keys=st.lists(bits, min_size=1), data=st.data(), factor=st.floats(1, 100))
def test_a_member_that_weighs_more_only_gains(
    load: Any, wanted: dict[str, tuple[int, int]], keys: list[int], data: st.DataObject, factor: float
) -> None:
    rendezvous, name = made(load(MODULE), wanted), data.draw(st.sampled_from(sorted(wanted)))
    before = {key: rendezvous.choose(key) for key in keys}
    rendezvous.put(name, wanted[name][0], wanted[name][1] * factor)
    assert all(rendezvous.choose(key) in (before[key], name) for key in keys)


@both_ways
def test_of_members_with_equal_scores_the_smaller_name_wins(load: Any) -> None:
    for names in ("ab", "ba"):
        rendezvous = made(load(MODULE), dict.fromkeys(names, (7, 3)))
        assert {rendezvous.choose(key) for key in range(100)} == {"a"}


@both_ways
def test_without_members_there_is_no_choice(load: Any) -> None:
    rendezvous = made(load(MODULE), {"a": (1, 1)})
    rendezvous.remove("a")
    assert rendezvous.choose(1) is None
    with pytest.raises(KeyError):
        rendezvous.remove("a")
