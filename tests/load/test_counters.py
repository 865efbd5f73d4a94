from __future__ import annotations

from typing import Literal

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from load.counters import Stop, Tally, stream_of
from load.figures import rows

events = st.lists(
    st.tuples(
        st.sampled_from(["publish", "wait", "confirm", "copies", "receive", "again", "stop"]),
        st.integers(1, 3),
        st.integers(0, 10),
        st.integers(0, 2),
    )
)  # what, producer, sequence, which process


def note(tally: Tally, what: str, producer: int, sequence: int) -> None:
    if what == "confirm":
        tally.record_confirmed(producer, sequence, sequence + 1)
    elif what == "copies":
        tally.record_confirmed(producer, sequence, sequence + 1, copies=2)
    elif what == "publish":
        tally.published[f"User{producer}"][producer] += 1
    elif what == "wait":
        tally.waits[f"User{producer}"]["confirms" if sequence % 2 else "writing"] += sequence
    elif what == "stop":
        method: Literal["FLOW", "BLOCKED"] = "FLOW" if sequence % 2 else "BLOCKED"
        tally.record_stop(Stop(float(sequence), float(sequence + producer), method, f"User{producer}", ("q",)))
    else:
        tally.record_received(producer, sequence, redelivered=what == "again")


@given(events, st.integers(1, 5))
def test_processes_together_count_what_one_would(noted: list[tuple[str, int, int, int]], every: int) -> None:
    """The master's sums are the same wherever messages are counted and however often counts are reported."""
    alone, master, workers = Tally(), Tally(), [Tally(), Tally(), Tally()]
    for number, (what, producer, sequence, process) in enumerate(noted):
        note(alone, what, producer, sequence)
        note(workers[process], what, producer, sequence)
        if number % every == 0:
            master.add(over_the_wire(workers[process]))
    for worker in workers:
        master.add(over_the_wire(worker))
    assert {name: value for name, value in master.sums.items() if value} == {
        name: value for name, value in alone.sums.items() if value
    }
    assert {producer: list(ranges) for producer, ranges in master.lost().items()} == {
        producer: list(ranges) for producer, ranges in alone.lost().items()
    }
    assert sorted(master.stops) == sorted(alone.stops)
    assert master.published == alone.published
    assert list(rows(master)) == list(rows(alone))


def over_the_wire(tally: Tally) -> dict[str, object]:
    """Return a tally's report as Locust sends it."""
    report: dict[str, object] = msgpack.unpackb(msgpack.packb(tally.pop_report()), strict_map_key=False)
    return report


def test_a_report_is_taken_once() -> None:
    tally = Tally()
    tally.record_confirmed(1, 0, 5)
    assert tally.pop_report()["sums"] == {"confirmed": 5}
    assert tally.pop_report()["sums"] == {}


def test_lost_is_what_was_confirmed_and_never_came() -> None:
    tally = Tally()
    tally.record_confirmed(7, 0, 10)
    for sequence in (0, 1, 2, 5, 6, 7, 8):
        tally.record_received(7, sequence, redelivered=False)
    tally.record_received(7, 3, redelivered=True)
    assert {producer: list(ranges) for producer, ranges in tally.lost().items()} == {7: [(4, 5), (9, 10)]}


def test_only_an_unmarked_repeat_is_a_duplicate() -> None:
    tally = Tally()
    tally.record_received(1, 0, redelivered=False)
    tally.record_received(1, 0, redelivered=True)
    assert tally.sums["duplicated"] == 0
    tally.record_received(1, 0, redelivered=False)
    assert tally.sums["duplicated"] == 1


def test_a_copy_that_did_not_come_is_lost() -> None:
    """Each of two queues gets what is published; one of the copies of message 1 is missing."""
    tally = Tally()
    tally.record_confirmed(7, 0, 2, copies=2)
    assert tally.sums["confirmed"] == 2
    for copy, sequence in ((0, 0), (0, 1), (1, 0)):
        tally.record_received(stream_of(7, copy), sequence, redelivered=False)
    assert {stream: list(ranges) for stream, ranges in tally.lost().items()} == {stream_of(7, 1): [(1, 2)]}
