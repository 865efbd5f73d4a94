"""Contents in flight: weighed by what becomes of them, with the room that the bound leaves at that weight."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acceptor.links.weights import BY_BACKLOG, LAGGING, PASSING, WHOLE
from penstock.settings import Settings
from tests.twins import both_ways, load_compiled, load_plain

WEIGHTS = st.sampled_from(BY_BACKLOG)
PIECES = st.lists(st.tuples(st.integers(1, 5000), st.integers(16, 1 << 20), WEIGHTS, WEIGHTS))
MOST = 2048, 1 << 20


def flying(module: ModuleType, pieces: list[tuple[int, int, int, int]]) -> tuple[Any, list[Any]]:
    """Return the contents in flight, and the load of each turn, one for each piece."""
    flight, turns = module.InFlight(*MOST), []
    for piece in pieces:
        turns.append(module.Load())
        flight.add(turns[-1], *piece)
    return flight, turns


@both_ways
def test_the_room_of_an_empty_link_is_by_the_weight_of_what_came_last(load: Any) -> None:
    module = load("acceptor.links.in_flight_cy")
    assert module.InFlight(*MOST).room() == MOST
    for weight, room in ((PASSING, 8192), (WHOLE, 2048), (LAGGING, 512)):
        flight, (turn,) = flying(module, [(1, 16, weight, WHOLE)])
        flight.load.leave(turn)
        assert flight.room() == (room, 1 << 20)


@both_ways
def test_the_room_of_a_link_in_use_is_by_the_weight_of_what_is_in_flight(load: Any) -> None:
    module = load("acceptor.links.in_flight_cy")
    flight, _ = flying(module, [(512, 1 << 18, PASSING, WHOLE)])
    assert flight.room() == (8192 - 512, (1 << 20) - (1 << 18))
    flight.add(module.Load(), 512, 1 << 18, LAGGING, WHOLE)
    assert flight.room() == (0, 0)  # half of it weighs more than the whole bound


@given(PIECES)
def test_what_fits_is_never_more_than_the_bound(pieces: list[tuple[int, int, int, int]]) -> None:
    """At the weight of what is in flight, the room fits the bound; compiled and plain code agree."""
    flight, _ = flying(load_compiled("acceptor.links.in_flight_cy"), pieces)
    count, nbytes = flight.room()
    assert (count, nbytes) == flying(load_plain("acceptor.links.in_flight_cy"), pieces)[0].room()
    load = flight.load
    if pieces and count > 0 and nbytes > 0:
        assert load.count_weight + count * load.count_weight // load.count <= WHOLE * 2048
        assert load.bytes_weight + nbytes * load.bytes_weight // load.nbytes <= WHOLE << 20


@both_ways
@given(pieces=PIECES)
def test_what_is_taken_in_counts_no_longer(load: Any, pieces: list[tuple[int, int, int, int]]) -> None:
    flight, turns = flying(load("acceptor.links.in_flight_cy"), pieces)
    for turn in turns:
        flight.load.leave(turn)
    assert flight.is_empty()
    assert (flight.load.count_weight, flight.load.nbytes, flight.load.bytes_weight) == (0, 0, 0)


@both_ways
def test_the_largest_bound_that_may_be_set_does_not_overflow(load: Any) -> None:
    fields = type(Settings().flow).model_fields
    most = tuple(next(m.le for m in fields[name].metadata if hasattr(m, "le")) for name in ("pair_count", "pair_bytes"))
    module = load("acceptor.links.in_flight_cy")
    flight = module.InFlight(*most)
    flight.add(module.Load(), 2 * most[0], 2 * most[1], PASSING, PASSING)
    assert flight.room() == (2 * most[0], 2 * most[1])
