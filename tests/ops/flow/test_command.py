"""`penstock flow`: held producers in words, and operator's stops with their selections. On a running node:
tests/broker/test_operator.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from ops.errors import CommandError
from ops.flow import command
from ops.flow.command import _how, _row, _selector, _stop_row
from tests.ops.commanded import Commanded
from tests.ops.flow.full import hold

NOTHING: dict[str, Any] = dict.fromkeys(("vhost", "exchange", "key", "queue", "user", "connection"))
HELD: dict[str, Any] = {
    "connection": "0.1.1", "channel": 1, "client": "c", "user": "u", "held_seconds": 3.0, "notified_by": [],
    "withheld": 0, "parked_bytes": 0, "paused": False, "ignores_flow": False, "spent": None, "rung": None, "causes": [],
}  # fmt: skip


def test_a_held_producer_is_listed_with_what_it_waits_for(commanded: Commanded) -> None:
    assert commanded.run(command.app) == "no producer is held\n"
    client = hold(commanded)
    ((connection, channel, product, user, _, _, waits_for, resumes_in),) = commanded.rows(command.app)
    assert (connection, channel, product, user) == (client.connection.id, "1", "a producer", "guest")
    assert waits_for.startswith("queue 'q'") and resumes_in == "unknown"
    (answer,) = commanded.json(command.app)
    assert [cause["name"] for cause in answer["causes"]] == ["q"]


def test_a_connection_is_explained_with_the_depth_of_each_line(commanded: Commanded) -> None:
    client = hold(commanded)
    lines = commanded.run(command.app, "why", client.connection.id).splitlines()
    answer = commanded.json(command.app, "why", client.connection.id)
    assert lines == ["  " * each["depth"] + each["text"] for each in answer]
    assert answer[0]["text"].startswith(f"connection {client.connection.id} (") and answer[1]["depth"] == 1
    assert commanded.refusal(command.app, "why", "0.0.0") == "connection 0.0.0 is not held"


def test_all_connections_are_read(commanded: Commanded) -> None:
    assert commanded.run(command.app, "unread") == "all connections are read\n"


def test_a_stop_is_made_listed_and_lifted_by_its_number_or_its_names(commanded: Commanded) -> None:
    assert commanded.run(command.app, "stops") == "nothing is stopped\n"
    ((number, what, _, reason, _, left),) = commanded.rows(
        command.app, "stop", "--queue", "q", "--reason", "a [rest]", "--for", "1h"
    )
    assert (what, reason, left) == ("queue q, vhost /", "a [rest]", "60 min")
    commanded.run(command.app, "stop", "--all")
    assert [row[1] for row in commanded.rows(command.app, "stops")] == ["queue q, vhost /", "all producers"]
    assert [row[1] for row in commanded.rows(command.app, "stops", "--where", "queue=q")] == ["queue q, vhost /"]
    assert [row[0] for row in commanded.rows(command.app, "start", number)] == [number]
    assert commanded.refusal(command.app, "start", number) == f"there is no stop {number}"
    assert [row[5] for row in commanded.rows(command.app, "start", "--all")] == ["for ever"]
    refusal = commanded.refusal(command.app, "start", "--all")
    assert refusal == "there is no such stop; `penstock flow stops` lists them"


def test_a_time_that_is_none_stops_nobody(commanded: Commanded) -> None:
    assert commanded.refusal(command.app, "stop", "--all", "--for", "soon").startswith("--for: 'soon' is not a time")
    assert commanded.json(command.app, "stops") == []


@pytest.mark.parametrize("name", ["exchange", "key", "queue"])
def test_names_within_a_vhost_are_in_the_default_one_unless_one_is_named(name: str) -> None:
    given = {"vhost": None, "exchange": None, "key": None, "queue": None, "user": None, "connection": None, name: "x"}
    assert _selector(False, **given) == {**NOTHING, name: "x", "vhost": "/"}
    assert _selector(False, **{**given, "vhost": "eu"}) == {**NOTHING, name: "x", "vhost": "eu"}
    assert _selector(False, **{**given, name: None, "user": "ann"}) == {**NOTHING, "user": "ann"}


@pytest.mark.parametrize(("every", "queue"), [(False, None), (True, "q")])
def test_either_all_or_some_are_named(every: bool, queue: str | None) -> None:
    with pytest.raises(CommandError, match=r"^give --all, or any of --vhost, "):
        _selector(every, None, None, None, queue, None, None)


@pytest.mark.parametrize(
    ("times", "text"),
    [([3.0, 7.0], "about 7.0 s"), ([3.0, None], "unknown"), ([None], "unknown"), ([], "unknown")],
)
def test_a_producer_resumes_when_its_last_cause_is_over_if_all_are_known(times: list[float | None], text: str) -> None:
    causes = [{"text": "t", "resumes_in": seconds} for seconds in times]
    assert _row({**HELD, "causes": causes})["resumes_in"] == text


def test_how_a_producer_is_held_names_all_that_applies() -> None:
    assert _how(HELD) == []
    rung = {"name": "park", "seconds": 3.0, "next": None, "next_in": None}
    held = {"notified_by": ["flow"], "withheld": 2, "parked_bytes": 9, "paused": True}
    held |= {"ignores_flow": True, "spent": "bytes"}
    assert _how({**HELD, **held, "rung": rung}) == [
        "flow", "confirms withheld", "9 bytes parked", "paused", "ignores channel.flow", "allowance used up: bytes",
        "on rung park for 3.0 s",
    ]  # fmt: skip


def test_a_stop_whose_time_is_over_has_nothing_left() -> None:
    assert _stop_row({**NOTHING, "since": 0.0, "until": 1.0})["left"] == "0.0 s"
