"""Operations on the wire: numbered lists, read back as the class that was written."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from penstock import bus
from penstock.bus import to_acceptor, to_shard
from penstock.bus.operations_cy import Operation, Operations, to_wires
from tests.twins import load_compiled, load_plain

NAME = "penstock.bus.operations_cy"
EVERY = [(table, kind) for table in (to_shard.OPERATIONS, to_acceptor.OPERATIONS) for _, kind in table]


class Unnumbered(NamedTuple):
    """An operation that no table has."""

    field: int


@pytest.mark.parametrize(("table", "kind"), EVERY)
def test_an_operation_is_read_as_the_class_it_was_written_as(table: Operations, kind: type[Operation]) -> None:
    written = kind(*range(len(kind.__annotations__)))  # type: ignore[call-arg]
    (read,) = table.read(bus.unpack(bus.pack(to_wires([written]))))
    assert type(read) is kind and read == written


def test_the_wire_form_is_the_number_and_the_fields_in_order() -> None:
    rejected = to_acceptor.Rejected(turn=1, publish=2, queue=3, first=4, messages=5)
    assert to_wires([to_shard.Grant(7, 3), rejected]) == [(14, 7, 3), (5, 1, 2, 3, 4, 5)]


def test_a_class_without_a_number_cannot_be_sent() -> None:
    with pytest.raises(KeyError):
        to_wires([Unnumbered(1)])
    turn = bus.Turn()
    turn.reserve()
    with pytest.raises(KeyError):
        turn.frames(1, 1)


@pytest.mark.parametrize("module", [load_plain(NAME), load_compiled(NAME)], ids=["plain", "compiled"])
def test_plain_and_compiled_tables_read_and_write_alike(module: Any) -> None:
    class Numbered(NamedTuple):
        field: int
        other: str = ""

    table = module.Operations()
    assert table.number(7)(Numbered) is Numbered
    wires = module.to_wires([Numbered(1), Numbered(2, "x")])
    assert wires == [(7, 1, ""), (7, 2, "x")]
    read = table.read([list(wire) for wire in wires])
    assert read == [(1, ""), (2, "x")] and {type(each) for each in read} == {Numbered}
    for wire in [7, 1], [8, 1, ""], []:
        with pytest.raises(ValueError, match="not an operation"):
            table.read([wire])
    with pytest.raises(KeyError):
        module.to_wires([Unnumbered(1)])


@pytest.mark.parametrize("wire", [[14, 7], [14, 7, 3, 1], [99], [99, 1], []])
def test_what_is_no_operation_is_refused(wire: list[int]) -> None:
    with pytest.raises(ValueError, match="not an operation"):
        to_shard.OPERATIONS.read([[14, 7, 3], wire])


def test_a_number_is_given_once() -> None:
    table = Operations()
    table.number(1)(Unnumbered)
    with pytest.raises(ValueError, match="operation 1 is"):
        table.number(1)(Unnumbered)


@pytest.mark.parametrize("kind", to_shard.Request.__args__)
def test_every_request_ends_with_its_number(kind: type[Operation]) -> None:
    assert [*kind.__annotations__][-1] == "request"


def test_operations_with_the_number_of_a_request_are_requests() -> None:
    numbered = {kind for _, kind in to_shard.OPERATIONS if "request" in kind.__annotations__}
    assert numbered == {*to_shard.Request.__args__}
