"""What is in flight weighs by what becomes of it; the room is what the bound leaves at that weight."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acceptor.in_flight import InFlight, Load, Weight

WEIGHTS = st.sampled_from(Weight)
PIECES = st.lists(st.tuples(st.integers(1, 5000), st.integers(16, 1 << 20), WEIGHTS, WEIGHTS))


def room_after(weight: Weight) -> int:
    """What may leave once all is taken in that weighed so."""
    flight, turn = InFlight(2048, 1 << 20), Load()
    flight.add(turn, 1, 16, weight, Weight.WHOLE)
    flight.load.leave(turn)
    return flight.room()[0]


def test_the_room_of_an_empty_link_is_by_the_weight_of_what_came_last() -> None:
    assert InFlight(2048, 1 << 20).room() == (2048, 1 << 20)
    assert room_after(Weight.PASSING) == 8192
    assert room_after(Weight.WHOLE) == 2048
    assert room_after(Weight.LAGGING) == 512


def test_the_room_of_a_link_in_use_is_by_the_weight_of_what_is_in_flight() -> None:
    flight, turn = InFlight(2048, 1 << 20), Load()
    flight.add(turn, 512, 1 << 18, Weight.PASSING, Weight.WHOLE)
    assert flight.room() == (8192 - 512, (1 << 20) - (1 << 18))
    flight.add(turn, 512, 1 << 18, Weight.LAGGING, Weight.WHOLE)
    assert flight.room()[0] <= 0  # half of it weighs more than all that may be there


@given(PIECES)
def test_what_fits_is_never_more_than_the_bound(pieces: list[tuple[int, int, Weight, Weight]]) -> None:
    """Of what weighs what is there already."""
    flight, turn = InFlight(2048, 1 << 20), Load()
    for piece in pieces:
        flight.add(turn, *piece)
    count, octets = flight.room()
    load = flight.load
    if pieces and count > 0:
        assert load.count_weight + count * load.count_weight // load.count <= Weight.WHOLE * 2048
    if pieces and octets > 0:
        assert load.octets_weight + octets * load.octets_weight // load.octets <= Weight.WHOLE << 20


@given(PIECES)
def test_what_is_taken_in_counts_no_longer(pieces: list[tuple[int, int, Weight, Weight]]) -> None:
    flight, turns = InFlight(2048, 1 << 20), []
    for piece in pieces:
        turns.append(Load())
        flight.add(turns[-1], *piece)
    for turn in turns:
        flight.load.leave(turn)
    assert flight.is_empty()
    assert (flight.load.count_weight, flight.load.octets, flight.load.octets_weight) == (0, 0, 0)
