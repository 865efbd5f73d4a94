"""Operations that an acceptor receives, and those that a shard keeps in its store."""

from __future__ import annotations

from penstock.bus import to_acceptor
from penstock.bus.operations_cy import to_wires


def test_the_numbers_of_verdicts_are_those_of_stores_that_exist() -> None:
    wires = to_wires([to_acceptor.Rejected(1, 2, 3, 4, 5), to_acceptor.Refused(1, 2, 3)])
    assert wires == [(5, 1, 2, 3, 4, 5), (6, 1, 2, 3)]


def test_a_got_message_is_a_list_on_the_wire() -> None:
    assert [*to_acceptor.Got(7, 2, True, 9)] == [7, 2, True, 9]
