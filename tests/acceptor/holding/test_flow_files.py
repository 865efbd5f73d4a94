"""An acceptor's files about flow control: written by one incarnation, continued by the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acceptor.clients.clock_origin import ClockOrigin
from acceptor.clients.state import AcceptorState
from acceptor.holding.flow_files import FlowFiles
from acceptor.holding.ledger import Ledger
from penstock.files.record_file import read_records, records_path
from tests.simulator.joined.node import Node


def incidents(data: Path) -> list[dict[str, Any]]:
    return list(read_records(records_path(data, "incidents", "acceptor", 0)))


def incarnation_of(node: Node, incarnation: int) -> AcceptorState:
    """Return the state of an incarnation of the acceptor; its clock began at 1,000 s."""
    state = AcceptorState(0, incarnation, node.gauges, node.settings, "penstock@here")
    state.origin = ClockOrigin(wall=1000.0)
    return state


def record(begun: float) -> dict[str, Any]:
    return {"kind": "queue", "begun": begun, "ended": begun + 2, "victims": [{"since": begun + 1}]}


def test_incidents_are_written_once_in_wall_time(tmp_path: Path) -> None:
    with Node() as node:
        ledger = Ledger()
        files = FlowFiles(tmp_path, incarnation_of(node, 1), ledger, node.core(0).events)
        ledger.records.append(record(5.0))
        files.write_due()
        files.write_all()
        [found] = incidents(tmp_path)
        assert (found["begun"], found["ended"], found["victims"][0]["since"]) == (1005.0, 1007.0, 1006.0)


def test_what_was_open_when_an_incarnation_died_is_over_and_its_accounts_go_on(tmp_path: Path) -> None:
    with Node() as node:
        ledger, events = Ledger(), node.core(0).events
        ledger.enter("queue", ("/", "q"), 7.0)
        files = FlowFiles(tmp_path, incarnation_of(node, 1), ledger, events)
        files.keep_accounts()
        files.open_holds.keep([record(1005.0)])
        later = Ledger()
        FlowFiles(tmp_path, incarnation_of(node, 2), later, events)
        assert [each["begun"] for each in incidents(tmp_path)] == [1005.0]
        assert [each["seconds"] for each in later.report(0.0)] == [7.0]
        FlowFiles(tmp_path, incarnation_of(node, 3), Ledger(), events)
        assert len(incidents(tmp_path)) == 1, "it was over already"
        fresh = Ledger()
        FlowFiles(tmp_path, incarnation_of(node, 1), fresh, events)
        assert not fresh.report(0.0), "a new run of the node"
