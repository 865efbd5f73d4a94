"""Incidents, put together from the records of shards and acceptors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from console.flow.incidents import events, incidents
from penstock.files.record_file import RecordFile, records_path


def stop(begun: float, ended: float) -> dict[str, Any]:
    return {"kind": "queue", "vhost": "/", "queue": "q", "cause": "12 of 10 messages", "begun": begun, "ended": ended,
            "peak_count": 12, "peak_bytes": 0, "overshoot_count": 2, "overshoot_bytes": 0, "epoch": 2}  # fmt: skip


def held(begun: float, ended: float, peer: str, kind: str = "queue", reason: str = "full") -> dict[str, Any]:
    queue = {"vhost": "/", "queue": "q"} if kind == "queue" else {"vhost": None, "queue": None, "of": reason}
    return {"kind": kind, **queue, "reason": reason, "begun": begun, "ended": ended, "holds": 1,
            "held_seconds": ended - begun, "actions": {"paused": 1},
            "victims": [{"connection": peer, "client": "c", "user": "u", "peer": peer, "since": begun,
                         "held_seconds": ended - begun}]}  # fmt: skip


def several(stop: dict[str, Any], stops: int, seconds: float) -> dict[str, Any]:
    """Return a sum of short stops."""
    return stop | {"stops": stops, "seconds": seconds, "longest": seconds / stops}


def write(data: Path, what: Any, role: Any, index: int, *records: dict[str, Any]) -> None:
    RecordFile(records_path(data, what, role, index)).append(records)


def test_victims_and_actions_are_entered_in_the_stop_they_belong_to(tmp_path: Path) -> None:
    RecordFile(records_path(tmp_path, "incidents", "shard", 0)).append([stop(100, 110), stop(200, 210)])
    RecordFile(records_path(tmp_path, "incidents", "acceptor", 0)).append(
        [held(100.5, 110.5, "a"), held(201, 210, "b")]
    )
    RecordFile(records_path(tmp_path, "incidents", "acceptor", 1)).append([held(101, 110, "c")])
    second, first = incidents(tmp_path)
    assert (first["begun"], first["seconds"], first["peak_count"], first["overshoot_count"]) == (100, 10, 12, 2)
    assert [victim["peer"] for victim in first["victims"]] == ["a", "c"]
    assert (first["holds"], first["held_seconds"], first["actions"]) == (2, 19.0, {"paused": 2})
    assert [victim["peer"] for victim in second["victims"]] == ["b"]


def test_what_is_no_queue_is_an_incident_of_its_own(tmp_path: Path) -> None:
    RecordFile(records_path(tmp_path, "incidents", "acceptor", 0)).append([held(5, 9, "a", "stop", "stopped by ann")])
    RecordFile(records_path(tmp_path, "incidents", "acceptor", 1)).append([held(5, 8, "b", "stop", "stopped by ann")])
    (one,) = incidents(tmp_path)
    assert (one["kind"], one["cause"], one["holds"], one["peak_count"]) == ("stop", "stopped by ann", 2, None)


def test_nothing_is_there(tmp_path: Path) -> None:
    assert incidents(tmp_path) == []
    assert events(tmp_path) == []


def test_events_of_all_processes_the_latest_first(tmp_path: Path) -> None:
    RecordFile(records_path(tmp_path, "events", "shard", 0)).append([{"at": 1.0}, {"at": 3.0}])
    RecordFile(records_path(tmp_path, "events", "acceptor", 0)).append([{"at": 2.0}])
    assert [each["at"] for each in events(tmp_path)] == [3.0, 2.0, 1.0]


def test_a_queue_that_flaps_is_one_incident_as_long_as_it_does(tmp_path: Path) -> None:
    first, second = several(stop(100, 150), 20, 4.0), several(stop(180, 200), 10, 1.0)
    again = several(stop(1000, 1001), 3, 0.3)
    write(tmp_path, "short_stops", "shard", 0, first, second, again)
    write(tmp_path, "short_stops", "acceptor", 0, several(held(101, 149, "a"), 7, 48.0))
    write(tmp_path, "incidents", "acceptor", 0, held(182, 199, "b"))
    late, early = incidents(tmp_path)
    assert (early["begun"], early["ended"], early["stops"], early["seconds"]) == (100, 200, 30, 5.0)
    assert (early["longest"], early["cause"], early["peak_count"]) == (0.2, "12 of 10 messages", 12)
    assert [victim["peer"] for victim in early["victims"]] == ["a", "b"] and early["holds"] == 2
    assert (late["begun"], late["stops"], late["victims"]) == (1000, 3, [])


def test_a_long_stop_between_short_ones_keeps_its_victims(tmp_path: Path) -> None:
    write(tmp_path, "incidents", "shard", 0, stop(110, 140))
    write(tmp_path, "short_stops", "shard", 0, several(stop(100, 150), 2, 0.5))
    write(tmp_path, "incidents", "acceptor", 0, held(110.5, 140.5, "long"))
    write(tmp_path, "short_stops", "acceptor", 0, several(held(100, 150.1, "short"), 2, 0.5))
    short, long = incidents(tmp_path)
    assert [[victim["peer"] for victim in each["victims"]] for each in (long, short)] == [["long"], ["short"]]
    assert (long["stops"], long["seconds"], short["stops"], short["seconds"]) == (1, 30, 2, 0.5)


def test_who_is_held_over_several_stops_is_entered_in_each(tmp_path: Path) -> None:
    """Each stop gets its share of the time; one that begins as the producer is released, or later, gets none."""
    stops = [stop(100, 102), stop(103, 106), stop(106.95, 110), stop(120, 130)]
    write(tmp_path, "incidents", "shard", 0, *stops)
    write(tmp_path, "incidents", "acceptor", 0, held(100, 107, "a") | {"held_seconds": 14.0, "holds": 2})
    write(tmp_path, "incidents", "acceptor", 1, held(107, 110, "b"))
    found = incidents(tmp_path)[::-1]
    assert [[victim["peer"] for victim in each["victims"]] for each in found] == [["a"], ["a"], ["b"], []]
    assert [(each["holds"], each["held_seconds"]) for each in found] == [(2, 5.6), (2, 8.4), (1, 3.0), (0, 0.0)]
    assert [each["actions"] for each in found] == [{}, {"paused": 1}, {"paused": 1}, {}]
    times = [[(victim["since"], victim["held_seconds"]) for victim in each["victims"]] for each in found]
    assert times == [[(100, 2.8)], [(103, 4.2)], [(107, 3)], []]


def test_many_stops_are_joined_each_with_its_own(tmp_path: Path) -> None:
    begins = range(0, 40_000, 10)
    RecordFile(records_path(tmp_path, "incidents", "shard", 0), 1 << 30).append(stop(at, at + 2) for at in begins)
    RecordFile(records_path(tmp_path, "incidents", "acceptor", 0), 1 << 30).append(
        held(at + 0.5, at + 2.5, str(at)) for at in begins
    )
    found = incidents(tmp_path)
    assert [[victim["peer"] for victim in each["victims"]] for each in found] == [[str(at)] for at in reversed(begins)]
