"""`penstock flow ledger`, `incidents` and `events`: sums over acceptors, and records that outlive the node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.flow import command
from ops.flow.history import SHOWN_VICTIMS, _event_row, _incident_row
from penstock.files.record_file import RecordFile, records_path
from tests.ops.commanded import Commanded
from tests.ops.flow.full import MARKS, STOP, pass_time
from tests.simulator.joined.node import open_channel

VICTIM = {"user": "u", "peer": "p", "held_seconds": 2.0}
INCIDENT: dict[str, Any] = {
    "begun": 0.0, "ended": 5.0, "stops": 1, "seconds": 5.0, "longest": 5.0, "kind": "queue", "vhost": "/", "queue": "q",
    "of": "queue 'q'", "cause": "5 of 4 messages", "holds": 1, "held_seconds": 2.0, "victims": [VICTIM],
    "actions": {"paused": 2},
}  # fmt: skip


def test_accounts_are_summed_up_over_acceptors_the_longest_first() -> None:
    with Commanded(acceptors=2) as commanded:
        assert commanded.run(command.app, "ledger") == "no producer was held\n"
        commanded.node.declare("q", **MARKS)
        commanded.node.declare("late", **MARKS)
        for acceptor, queue in ((0, "q"), (1, "q"), (0, "late")):
            client = open_channel(commanded.node, acceptor)
            for _ in range(2 * STOP):
                client.publish(1, b"x", routing_key=queue)
            commanded.node.settle(1)
            pass_time(commanded, 5)
        answer = commanded.json(command.app, "ledger")
        assert [(each["name"], each["stops"]) for each in answer] == [("q", 2), ("late", 1)]
        assert answer[0]["seconds"] >= 5 + answer[1]["seconds"] >= 10
        (account,) = commanded.json(command.app, "ledger", "--by", "user")
        assert (account["name"], account["stops"]) == ("guest", 3)
        assert [row[1] for row in commanded.rows(command.app, "ledger")] == ["q", "late"]
        assert [row[1] for row in commanded.rows(command.app, "ledger", "--where", "stops<2")] == ["late"]
        assert [row[1] for row in commanded.rows(command.app, "ledger", "--sort", "name")] == ["late", "q"]


def test_the_latest_events_are_listed_without_a_node(tmp_path: Path) -> None:
    def run(*words: str) -> str:
        done = CliRunner().invoke(command.app, [*words, "--data", str(tmp_path)])
        assert done.exception is None
        return done.stdout

    assert run("events") == "there were no events\n"
    assert run("incidents") == "there were no incidents\n"
    marks = {"count": 5, "bytes": 9, "stop_count": 4, "resume_count": 1, "stop_bytes": 0, "resume_bytes": 0}
    records = [{"at": at, "event": f"event-{at:g}", "vhost": "/", "queue": "q", **marks} for at in (1.0, 2.0, 3.0)]
    RecordFile(records_path(tmp_path, "events", "shard", 0)).append(records)
    text = run("events", "--last", "2")
    assert "event-1" not in text and text.index("event-3") < text.index("event-2")
    text = run("events", "--last", "1", "--where", "event=event-?", "--where", "at<3")
    assert "event-2" in text and "event-3" not in text


def test_an_event_has_its_depth_beside_its_mark_and_all_its_other_fields() -> None:
    event = {"at": 1.5, "event": "stop", "vhost": "/", "queue": "q", "count": 5, "stop_count": 4, "resume_count": 1,
             "bytes": 9, "stop_bytes": 0, "resume_bytes": 0, "rung": "park", "client": "c"}  # fmt: skip
    row = _event_row(event)
    assert row["at"] == "1970-01-01 00:00:01.500+00:00"
    assert "5" in row["messages"] and "4" in row["messages"]
    assert row["more"] == ["rung park", "client c"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({}, "queue q in vhost /"),
        ({"kind": "deadlock"}, "deadlock, queue q in vhost /"),
        ({"kind": "stop", "queue": None, "of": "5 of 4 messages"}, "stop"),
        ({"kind": "shard", "queue": None, "of": "shard 1"}, "shard: shard 1"),
    ],
)
def test_an_incident_is_of_a_queue_or_of_something_else(change: dict[str, Any], what: str) -> None:
    assert _incident_row({**INCIDENT, **change})["what"] == what


def test_stops_that_recur_are_one_line() -> None:
    assert _incident_row(INCIDENT)["lasted"] == "5.0 s"
    several = {**INCIDENT, "stops": 4, "ended": 60.0, "seconds": 2.0, "longest": 0.9}
    assert _incident_row(several)["lasted"] == "4 times in 60 s: 2.0 s, 0.9 s at most"


def test_only_the_first_victims_are_named() -> None:
    few = _incident_row({**INCIDENT, "victims": [VICTIM] * SHOWN_VICTIMS})["victims"]
    assert few == ["u at p for 2.0 s"] * SHOWN_VICTIMS
    many = _incident_row({**INCIDENT, "victims": [VICTIM] * (SHOWN_VICTIMS + 2)})["victims"]
    assert many == [*few, "and 2 more"]
    assert _incident_row(INCIDENT)["actions"] == ["paused 2"]
