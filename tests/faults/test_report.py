"""The report on a failed run has the facts that its reader needs."""

from __future__ import annotations

from tests.faults.events import Confirmed, Delivered, Fault, Message, Over, Record, Sent
from tests.faults.report import errors


def test_a_history_is_what_was_noted_of_a_message_and_of_its_successor_with_the_faults_between() -> None:
    record = Record()
    one, two, other = Message("p", 1), Message("mover", 7), Message("p", 2)
    events = [
        Sent(one, ("q",), 1),
        Fault("SIGKILL shard 0"),
        Sent(two, ("moved",), 1, origin=one),
        Over("all ready"),
        Delivered("q", "r", 1, one, True),
    ]
    record.note(*events[:2], Sent(other, ("q",), 1), *events[2:], Confirmed(other))
    assert [line.partition("  ")[2] for line in record.history(one)] == [str(event) for event in events]
    assert len(record.faults()) == 2
    assert len(record.lines()) == 7


def test_errors_of_the_node_are_told_with_their_traces() -> None:
    log = """{"role":"shard","index":1,"event":"queue read","level":"info","timestamp":"2024-05-06T07:08:09.1Z"}
{"role":"shard","index":1,"event":"broken","level":"error","timestamp":"2024-05-06T07:08:09.2Z","exception":"a\\nb","n":3}
Segmentation fault"""
    assert list(errors(log)) == ["07:08:09.2  shard 1: broken {'n': 3}", "a", "b", "Segmentation fault"]
