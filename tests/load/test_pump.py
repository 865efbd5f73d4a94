"""Clients in C: their counts, and the errors when they cannot go on."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from load import frames, pump
from load.pump import Pump

EACH = 50
PREFETCH = 10


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def counted(program: Pump, wanted: int) -> int:
    """Return the first count that is at least `wanted`."""
    while (count := program.recv()[1]) < wanted:
        pass
    return count


def test_deliveries_are_counted_by_their_length_and_acked(ends: tuple[socket.socket, socket.socket]) -> None:
    here, there = ends
    program = Pump(["consume", str(EACH), str(PREFETCH), "-1"], [there])
    here.sendall(bytes(EACH * 5 - 1))
    assert counted(program, 4) == 4
    here.sendall(bytes(1 + EACH))
    assert counted(program, 6) == 6
    assert here.recv(100) in (frames.ack_up_to(5), frames.ack_up_to(6))
    assert program.end().split()[1] == "6"


def test_bursts_are_written_over_and_over(ends: tuple[socket.socket, socket.socket]) -> None:
    here, there = ends
    burst = frames.publish("q", b"body", 3)
    program = Pump(["produce", "0", "-1"], [there], pump.encode_burst(burst, 3))
    received = b""
    while len(received) < 10 * len(burst):
        received += here.recv(1 << 16)
    assert received[: 10 * len(burst)] == 10 * burst
    program.kill()


def test_a_stamp_comes_back_as_a_latency(ends: tuple[socket.socket, socket.socket]) -> None:
    here, there = ends
    body = bytes(16)
    burst = frames.publish("", body, 1)
    producer = Pump(["produce", "100", str(len(body) + 1)], [here], pump.encode_burst(burst, 1))
    consumer = Pump(["consume", str(len(burst)), "0", str(len(body) + 1)], [there])
    counted(consumer, 20)
    sent = int(producer.end().split()[1])
    counted(consumer, sent)
    what, count, *nanoseconds = consumer.end().split()
    assert (what, int(count)) == ("latency", sent)
    low, middle, high = map(int, nanoseconds)
    assert 0 < low <= middle <= high < 60e9


def test_a_broker_that_goes_is_told(ends: tuple[socket.socket, socket.socket]) -> None:
    here, there = ends
    program = Pump(["consume", str(EACH), "0", "-1"], [there])
    here.close()
    with pytest.raises(EOFError):
        counted(program, 1)
    with pytest.raises(ConnectionError, match="closed a connection"):
        program.end()
