"""Processes in the gauges: each has records of its own, and reads back what was written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.memory.gauges import DEAD, READY, UNSTARTED, Gauges
from penstock.memory.layout import LAYOUT
from penstock.node.node import Role
from tests.penstock.memory.gauges_file import (
    ACCEPTORS,
    COUNTERS_AT,
    PROCESS_SIZE,
    SHARDS,
    break_off,
    word,
    words,
)


@pytest.mark.parametrize(
    ("role", "index"),
    [
        ("supervisor", 1),
        ("router", -1),
        ("shard", SHARDS),
        ("acceptor", ACCEPTORS),
        ("console", 1),
        ("balancer", 1),
        ("relay", 1),
    ],
)
def test_processes_out_of_range(gauges: Gauges, role: Role, index: int) -> None:
    with pytest.raises(IndexError, match=role):
        gauges.process_read(role, index)
    with pytest.raises(IndexError, match=role):
        gauges.counters_write(role, index, *range(20))


@given(
    role=st.sampled_from(["supervisor", "router", "shard", "acceptor", "console", "balancer", "relay"]),
    written=st.tuples(*[words] * 5),
)
def test_process_round_trip(pair: tuple[Gauges, Gauges], role: Role, written: tuple[int, ...]) -> None:
    one, other = pair
    pid, incarnation, state, started_us, restarts = written
    one.process_write(role, 0, pid=pid, incarnation=incarnation, state=state, started_us=started_us, restarts=restarts)
    assert other.process_read(role, 0) == (role, 0, *written, False)


@given(numbers=st.tuples(*[words] * 20))
def test_counters_round_trip(pair: tuple[Gauges, Gauges], numbers: tuple[int, ...]) -> None:
    one, other = pair
    one.counters_write("acceptor", 2, *numbers)
    assert other.counters_read("acceptor", 2) == (*numbers, False)


@given(numbers=st.tuples(*[words] * 4))
def test_measures_round_trip(pair: tuple[Gauges, Gauges], numbers: tuple[int, ...]) -> None:
    one, other = pair
    one.measures_write("shard", 1, *numbers)
    assert other.measures_read("shard", 1) == (*numbers, False)


@given(held=st.tuples(*[words] * 7), charged=words, stops=st.tuples(*[words] * 16), resumes=st.tuples(*[words] * 16))
def test_flow_round_trip(
    pair: tuple[Gauges, Gauges], held: tuple[int, ...], charged: int, stops: tuple[int, ...], resumes: tuple[int, ...]
) -> None:
    one, other = pair
    one.flow_write("acceptor", 2, held, charged, stops, resumes)
    assert other.flow_read("acceptor", 2) == (held, charged, stops, resumes, False)


@pytest.mark.parametrize("lengths", [(6, 16, 16), (7, 15, 16), (7, 16, 17)])
def test_flow_of_another_length_is_refused(gauges: Gauges, lengths: tuple[int, int, int]) -> None:
    held, stops, resumes = ([1] * length for length in lengths)
    with pytest.raises(ValueError, match="numbers are wanted"):
        gauges.flow_write("acceptor", 0, held, 1, stops, resumes)
    assert gauges.flow_read("acceptor", 0) == ((0,) * 7, 0, (0,) * 16, (0,) * 16, False)


def test_processes_have_their_own_records(gauges: Gauges) -> None:
    places: list[tuple[Role, int]] = [("supervisor", 0), ("router", 0)]
    places += [("shard", index) for index in range(SHARDS)]
    places += [("acceptor", index) for index in range(ACCEPTORS)]
    places += [("console", 0), ("balancer", 0), ("relay", 0)]
    assert {gauges.process_read(*place).state for place in places} == {UNSTARTED}
    for number, (role, index) in enumerate(places, 1):
        gauges.process_write(role, index, pid=number, incarnation=0, state=READY, started_us=0, restarts=0)
        gauges.counters_write(role, index, *[number] * 20)
        gauges.measures_write(role, index, *[number] * 4)
        gauges.flow_write(role, index, [number] * 7, number, [number] * 16, [number] * 16)
    assert [gauges.process_read(*place).pid for place in places] == list(range(1, len(places) + 1))
    assert [gauges.counters_read(*place).loop_turns for place in places] == list(range(1, len(places) + 1))
    assert [gauges.measures_read(*place).stored_bytes for place in places] == list(range(1, len(places) + 1))
    assert [gauges.flow_read(*place).resume_delays[-1] for place in places] == list(range(1, len(places) + 1))


def test_processes_and_counters_left_in_mid_write(gauges: Gauges, path: Path) -> None:
    gauges.process_write("shard", 0, pid=9, incarnation=1, state=READY, started_us=1, restarts=0)
    block = gauges.processes_at + 2 * PROCESS_SIZE
    break_off(path, block)
    break_off(path, block + COUNTERS_AT)
    assert gauges.process_read("shard", 0).torn and gauges.process_read("shard", 0).pid == 9
    assert gauges.counters_read("shard", 0).torn
    gauges.process_write("shard", 0, pid=9, incarnation=1, state=DEAD, started_us=1, restarts=0)
    gauges.counters_write("shard", 0, *range(20))
    assert not gauges.process_read("shard", 0).torn
    assert not gauges.counters_read("shard", 0).torn


def test_each_incarnation_of_a_shard_says_what_it_finishes(gauges: Gauges, path: Path) -> None:
    """Each of two incarnations has a word of its own."""
    for written in 6, 7:
        gauges.finishing_write(1, written, 50 + written)
    assert [gauges.finishing_read(1, written) for written in (6, 7)] == [56, 57]
    process = gauges.processes_at + (2 + 1) * PROCESS_SIZE
    assert [word(path, process + LAYOUT["process"]["finishing"] + at) for at in (0, 8)] == [56, 57]


def test_each_incarnation_has_a_beat_of_its_own(gauges: Gauges) -> None:
    assert gauges.last_beat("shard", 1, 6) == (0, 0)
    gauges.beat("shard", 1, 6, 100, 3)
    gauges.beat("shard", 1, 7, 200, 1)
    assert [gauges.last_beat("shard", 1, written) for written in (6, 7)] == [(100, 3), (200, 1)]
    with pytest.raises(ValueError, match="no kind of work: 8"):
        gauges.beat("shard", 1, 7, 200, 8)
