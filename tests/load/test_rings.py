"""Programs that feed each other's full queues: the verdict on a course of them, and their progress."""

from __future__ import annotations

import selectors
from collections.abc import Iterator

import pytest

from load.peer import AMQPLIB, DOTNET, JAVA, PIKA, PY_AMQP
from load.rings import LIMIT, SURPLUS, Cell, Result, close, problems, ring, shares, table, turn
from load.target import Target
from tests.broker.process import Broker
from tests.waiting import wait_for

SECONDS = 2
"""`flow.deadlock_seconds`: a ring that stands still is found after a tenth of that."""


def test_who_is_too_slow_or_stands_still() -> None:
    cells = [Cell(2, kind, 1, False) for kind in (JAVA, PIKA, PY_AMQP, AMQPLIB)]
    rows = [([90, 90], [9, 9]), ([100, 100], [9, 9]), ([9, 9], [1, 1]), ([100, 90], [0, 9])]
    results = [Result(cell, *row, 2.0, 0.25) for cell, row in zip(cells, rows, strict=True)]
    results.append(Result(Cell(3, JAVA, 2, True), [5, 5, 5], [1, 1, 1], 2.0, 0.25))
    results.append(Result(Cell(3, PIKA, 2, True), [5, 5, 5], [1, 1, 1], 2.0, 0.25, "after 1.0 s: closed with 506"))
    assert [round(share, 2) for share in shares(results)] == [0.9, 1.0, 0.09, 0.95, 1.0, 1.0]
    assert problems(results) == [
        "2 programs as py-amqp, 1 connections, no confirms: 0.09 of the fastest kind, wanted 0.5",
        "2 programs as amqplib, 1 connections, no confirms: stands still",
        "3 programs as pika, 2 connections, confirms: after 1.0 s: closed with 506",
    ]
    assert table(results[:1]).splitlines()[1].split() == ["2", "1", "no", "java", "90", "1.00", "0.25", "s", "yes"]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with Broker(tmp_path_factory.mktemp("rings"), f"flow.deadlock_seconds={SECONDS}") as broker:
        yield Target(broker.address.host, broker.address.port)


def go_on(target: Target, cell: Cell, name: str) -> int:
    """Run a ring until each program has acked many more messages than all queues may contain; return the surplus."""
    programs = ring(target, cell, name)
    most = 10 * cell.programs * (LIMIT + SURPLUS)
    with selectors.DefaultSelector() as selector:

        def done() -> bool:
            turn(programs, selector)
            return all(program.acked > most for program in programs)

        try:
            wait_for(done, timeout=60, interval=0, what="all programs to go on")
        finally:
            close(programs)
    return sum(program.surplus for program in programs)


@pytest.mark.broker
@pytest.mark.parametrize(
    "cell",
    [
        Cell(2, JAVA, 1, False),
        Cell(2, JAVA, 1, True),
        Cell(2, JAVA, 2, False),
        Cell(2, PY_AMQP, 2, True),
        Cell(2, AMQPLIB, 1, True),
        Cell(3, DOTNET, 2, False),
        Cell(3, PIKA, 2, True),
    ],
    ids=str,
)
def test_a_ring_goes_on(target: Target, cell: Cell) -> None:
    """More messages are in flight than the queues of the ring may contain."""
    assert go_on(target, cell, str(cell)) == 0
