"""Operations go over the wire as numbered lists, and come out as the class that they went in as."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from penstock import bus
from penstock.bus import to_acceptor, to_shard
from penstock.bus.operations import Operation, Operations, to_wire

EVERY = [(table, kind) for table in (to_shard.OPERATIONS, to_acceptor.OPERATIONS) for _, kind in table]


class Unnumbered(NamedTuple):
    """An operation that no table has."""

    field: int


@pytest.mark.parametrize(("table", "kind"), EVERY)
def test_an_operation_is_read_as_the_class_it_was_written_as(table: Operations, kind: type[Operation]) -> None:
    written = kind(*range(len(kind.__annotations__)))  # type: ignore[call-arg]
    read = table.read(bus.unpack(bus.pack(to_wire(written))))
    assert type(read) is kind and read == written


def test_the_wire_form_is_the_number_and_the_fields_in_order() -> None:
    assert to_wire(to_shard.Grant(7, 3)) == (14, 7, 3)
    assert to_wire(to_acceptor.Rejected(turn=1, publish=2, queue=3, first=4, messages=5)) == (5, 1, 2, 3, 4, 5)


def test_a_class_without_a_number_cannot_be_sent() -> None:
    with pytest.raises(KeyError):
        to_wire(Unnumbered(1))
    turn = bus.Turn()
    turn.reserve()
    with pytest.raises(KeyError):
        turn.frames(1, 1)


@pytest.mark.parametrize("wire", [[14, 7], [14, 7, 3, 1]])
def test_fields_that_do_not_match_the_class_are_refused(wire: list[int]) -> None:
    with pytest.raises(TypeError):
        to_shard.OPERATIONS.read(wire)


def test_an_unknown_number_is_refused() -> None:
    with pytest.raises(KeyError):
        to_shard.OPERATIONS.read([99])


def test_a_number_is_given_once() -> None:
    table = Operations()
    table.number(1)(Unnumbered)
    with pytest.raises(ValueError, match="operation 1 is"):
        table.number(1)(Unnumbered)


@pytest.mark.parametrize("kind", to_shard.Request.__args__)
def test_every_request_ends_with_its_number(kind: type[Operation]) -> None:
    assert [*kind.__annotations__][-1] == "request"
    assert {each for _, each in to_shard.OPERATIONS if "request" in each.__annotations__} == {
        *to_shard.Request.__args__
    }
