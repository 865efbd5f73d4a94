"""Transactions over several shards: done completely or not at all, in spite of deaths at any step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shard.two_phase_world import DEATHS, World


def search(world: World) -> int:
    """Explore all paths from here, checking each state and each end; return the number of ends. From each state some
    path must lead to an end without another death.
    """
    seen = {world.key()}
    waiting = [world]
    ends: list[Hashable] = []
    before: dict[Hashable, list[Hashable]] = defaultdict(list)
    while waiting:
        state = waiting.pop()
        own = state.key()
        goes_on = False
        for step in state.steps():
            following = state.copy()
            following.take(step)
            key = following.key()
            if step[0] not in DEATHS and key != own:
                goes_on = True
                before[key].append(own)
            if key not in seen:
                seen.add(key)
                waiting.append(following)
        if not goes_on:
            ends.append(own)
            state.check_end()
    assert leading_to(ends, before) == seen
    return len(ends)


def leading_to(ends: list[Hashable], before: dict[Hashable, list[Hashable]]) -> set[Hashable]:
    """Return the states from which these ends can be reached."""
    found, waiting = set(ends), [*ends]
    while waiting:
        for state in before[waiting.pop()]:
            if state not in found:
                found.add(state)
                waiting.append(state)
    return found


@pytest.mark.parametrize(
    ("shards", "deaths", "times"), [(2, 0, 1), (2, 1, 1), pytest.param(3, 0, 1, marks=pytest.mark.slow)]
)
def test_all_interleavings(shards: int, deaths: int, times: int) -> None:
    assert search(World(shards, deaths, times))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("shards", "deaths", "times"), [(2, 2, 0), (3, 1, 0)])
def test_all_interleavings_of_more(shards: int, deaths: int, times: int) -> None:
    assert search(World(shards, deaths, times))


@settings(max_examples=200)
@given(shards=st.integers(2, 4), deaths=st.integers(1, 6), choices=st.lists(st.integers(0, 1 << 16), max_size=150))
def test_some_of_many(shards: int, deaths: int, choices: list[int]) -> None:
    """After these steps nobody else dies, and the transaction comes to its end."""
    world = World(shards, deaths, times=5)
    for choice in choices:
        if steps := world.steps():
            world.take(steps[choice % len(steps)])
    world.deaths = world.times = 0
    for _ in range(1000):
        steps = world.steps()
        before = world.key()
        for step in steps:
            if step in world.steps():
                world.take(step)
        if world.key() == before:
            break
    world.check_end()
