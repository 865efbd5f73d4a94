"""The records of flow control that a process keeps: each kind in a file of its own."""

from __future__ import annotations

from pathlib import Path

from penstock.files.record_file import read_records, records_path
from penstock.flow.flow_records import FlowRecords


def test_each_kind_is_read_from_its_own_file(tmp_path: Path) -> None:
    records = FlowRecords(tmp_path, "shard", 2)
    records.write([{"event": "stopped"}], [{"cause": "full"}], [{"stops": 7}])
    records.write([{"event": "resumed"}], [], [])
    assert list(read_records(records_path(tmp_path, "events", "shard", 2))) == [
        {"event": "stopped"}, {"event": "resumed"},
    ]  # fmt: skip
    assert list(read_records(records_path(tmp_path, "incidents", "shard", 2))) == [{"cause": "full"}]
    assert list(read_records(records_path(tmp_path, "short_stops", "shard", 2))) == [{"stops": 7}]


def test_a_file_is_made_only_for_records(tmp_path: Path) -> None:
    records = FlowRecords(tmp_path, "acceptor", 0)
    records.write([], [], [])
    assert list(tmp_path.iterdir()) == []
    records.write([], [{"cause": "full"}], [])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [
        records_path(tmp_path, "incidents", "acceptor", 0)
    ]


def test_processes_have_files_of_their_own(tmp_path: Path) -> None:
    FlowRecords(tmp_path, "shard", 0).write([{"number": 1}], [], [])
    FlowRecords(tmp_path, "acceptor", 0).write([{"number": 2}], [], [])
    FlowRecords(tmp_path, "shard", 1).write([{"number": 3}], [], [])
    found = [list(read_records(records_path(tmp_path, "events", *of))) for of in (("shard", 0), ("shard", 1))]
    assert found == [[{"number": 1}], [{"number": 3}]]
