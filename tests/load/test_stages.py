"""The way of lone messages, found in the system calls of the processes that it leads through."""

from __future__ import annotations

import pytest

from load.ftrace import Call
from load.stages import CONSUMER, PRODUCER, way

PROCESSES = {1: PRODUCER, 2: "acceptor", 3: "shard", 4: CONSUMER}


def message(at: int) -> list[Call]:
    """The calls for one message that is written at a moment, and an answer to the producer."""
    return [
        Call(1, "write", at, at + 4, 100),
        Call(2, "epoll_wait", at - 500, at + 10, 1),
        Call(2, "recvfrom", at + 11, at + 15, 100),
        Call(2, "sendto", at + 45, at + 50, 200),
        Call(3, "epoll_wait", at - 400, at + 55, 1),
        Call(3, "recvfrom", at + 56, at + 58, 200),
        Call(3, "recvfrom", at + 59, at + 60, -11),
        Call(3, "writev", at + 98, at + 102, 150),
        Call(2, "epoll_wait", at + 52, at + 108, 1),
        Call(2, "recvfrom", at + 109, at + 110, 150),
        Call(2, "writev", at + 130, at + 137, 90),
        Call(4, "epoll_wait", at - 300, at + 145, 1),
        Call(4, "read", at + 146, at + 149, 90),
        Call(2, "write", at + 160, at + 163, 21),
    ]


def test_a_way_is_divided_into_stages_whose_sum_it_is() -> None:
    found = way([call for number in range(1, 6) for call in message(1000 * number)], PROCESSES)
    assert found.share == 1.0 and found.whole == [149] * 5
    assert [(str(stage), times) for stage, times in found.stages.items()] == [
        ("acceptor wakes", [10] * 5),
        ("acceptor receives", [5] * 5),
        ("acceptor works", [30] * 5),
        ("shard wakes", [10] * 5),
        ("shard receives", [3] * 5),
        ("shard works", [40] * 5),
        ("acceptor wakes", [10] * 5),
        ("acceptor receives", [2] * 5),
        ("acceptor works", [20] * 5),
        ("consumer wakes", [15] * 5),
        ("consumer receives", [4] * 5),
    ]


def test_threads_of_one_process_are_one() -> None:
    calls = message(1000)
    threads = {1: PRODUCER, 2: "broker", 3: "broker", 4: CONSUMER}
    found = way(calls, threads)
    assert [str(stage) for stage in found.stages][:3] == ["broker wakes", "broker receives", "broker works"]
    assert sum(times[0] for times in found.stages.values()) == 149


def test_messages_that_take_another_way_are_counted_and_left_out() -> None:
    short = [Call(1, "write", 9000, 9001, 100), Call(4, "read", 9005, 9010, 90)]
    found = way([*message(1000), *message(2000), *message(3000), *short], PROCESSES)
    assert (found.share, found.whole) == (0.75, [149] * 3)


def test_without_a_message_there_is_no_way() -> None:
    with pytest.raises(ValueError, match="no message has arrived"):
        way([Call(1, "write", 1, 2, 3)], PROCESSES)
    with pytest.raises(ValueError, match="no message has arrived"):
        way([Call(4, "read", 1, 2, 3)], PROCESSES)
