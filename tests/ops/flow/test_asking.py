"""Questions to a running node: the held channels, the unread connections, and the drain rates of queues."""

from __future__ import annotations

from typing import Any

import pytest

from console.flow.chain import on_rung
from ops.administration.processes import Processes
from ops.flow import asking
from tests.ops.commanded import Commanded
from tests.ops.flow.full import hold, pass_time


def test_the_longest_held_channel_is_first() -> None:
    with Commanded(acceptors=1) as commanded:
        first = hold(commanded, "a")
        pass_time(commanded, 5)
        second = hold(commanded, "b")
        pass_time(commanded, 5)
        found = asking.held(Processes(commanded.data))
    assert [each["connection"] for each in found] == [first.connection.id, second.connection.id]
    assert found[0]["held_seconds"] > found[1]["held_seconds"] >= 5


def test_all_connections_of_a_quiet_node_are_read(commanded: Commanded) -> None:
    hold(commanded)
    assert asking.unread(Processes(commanded.data)) == []


@pytest.mark.parametrize(
    ("rung", "text"),
    [
        ({"name": "park", "seconds": 3.0, "next": "pause", "next_in": 7.5}, "on rung park for 3.0 s, pause in 7.5 s"),
        ({"name": "reject", "seconds": 300.0, "next": None, "next_in": None}, "on rung reject for 5 min"),
    ],
)
def test_the_next_rung_is_named_if_there_is_one(rung: dict[str, Any], text: str) -> None:
    assert on_rung(rung) == text


def test_no_time_is_spent_on_no_queues(commanded: Commanded) -> None:
    assert asking.drained(Processes(commanded.data), []) == {}


def test_a_queue_at_rest_drains_at_no_rate_and_a_slot_without_one_is_left_out(commanded: Commanded) -> None:
    hold(commanded)
    slot = commanded.node.queue("q").slot
    found = asking.drained(Processes(commanded.data), [slot, slot + 1])
    assert found.keys() == {slot}
    assert found[slot]["published_per_second"] == 0
