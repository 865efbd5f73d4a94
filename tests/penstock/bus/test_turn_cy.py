"""A turn under construction: places of operations and parts, and the multipart that it becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock import bus
from penstock.bus.turn_cy import IN_HEAD
from tests.twins import both_ways, load_compiled, load_plain

NAME = "penstock.bus.turn_cy"
Load = Callable[[str], Any]


class Notified(NamedTuple):
    """An operation with one part."""

    part: int


def table(load: Load) -> Any:
    """Return the operations that a receiver knows: `Notified` alone."""
    operations = load("penstock.bus.operations_cy").Operations()
    operations.number(7)(Notified)
    return operations


def built(load: Load, *bodies: bytes) -> Any:
    """Return a batch with these bodies."""
    builder = load("penstock.batch.batch_cy").BatchBuilder()
    for body in bodies:
        builder.add(b"address", b"header", body, 0)
    return builder.finish()


@both_ways
def test_operations_keep_their_places(load: Load) -> None:
    operations, turn = table(load), load(NAME).Turn()
    assert turn.add(Notified(1)) == 0
    reserved = turn.reserve()
    assert reserved == 1 and turn.add(Notified(3)) == 2
    turn.operations[reserved] = Notified(turn.place(b"rows"))
    assert turn.place(b"more") == 1
    (head,) = turn.frames(5, 6, 7)
    assert bus.read_head(head, operations) == (5, 6, 7, [Notified(1), Notified(0), Notified(3)], [b"rows", b"more"], 0)


@both_ways
def test_large_parts_are_frames_of_their_own(load: Load) -> None:
    turn = load(NAME).Turn()
    parts = [bytes(IN_HEAD - 1), bytes(IN_HEAD), b"", bytes(2 * IN_HEAD)]
    for part in parts:
        turn.place(part)
    head, *apart = turn.frames(1, 1)
    assert apart == [parts[1], parts[3]] and turn.lent == 0
    assert bus.read_head(head, table(load))[4:] == ([parts[0], None, b"", None], 2)


@both_ways
def test_a_range_of_a_batch_is_placed_once(load: Load) -> None:
    batch, turn = built(load, b"one", b"two"), load(NAME).Turn()
    places = [turn.place_batch(batch, *its) for its in ((0, 2), (1, 1), (0, 2), (0, 1))]
    assert places == [0, 2, 0, 4]
    parts = bus.read_head(turn.frames(1, 1)[0], table(load))[4]
    batches = [bus.batch_at(parts, at) for at in (0, 2, 4)]
    bodies = [[each.record(row)[2] for row in range(len(each))] for each in batches]
    assert bodies == [[b"one", b"two"], [b"two"], [b"one"]]


def test_both_make_the_same_frames() -> None:
    frames = []
    for load in load_compiled, load_plain:
        table(load)
        turn = load(NAME).Turn()
        turn.add(Notified(turn.place_batch(built(load, b"small", bytes(IN_HEAD)), 0, 2)))
        frames.append(turn.frames(1, 2, 3))
    assert frames[0] == frames[1] and len(frames[0]) == 2
