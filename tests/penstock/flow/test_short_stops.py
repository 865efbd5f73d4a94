"""Sums of stops that are too short to be incidents."""

from __future__ import annotations

from typing import Any

from penstock.flow.short_stops import MOST, OTHERS, SUMMED_SECONDS, VICTIMS, ShortStops


def stop(begun: float, ended: float, queue: str | None = "q", **facts: Any) -> dict[str, Any]:
    return {"kind": "queue", "vhost": "/", "queue": queue, "begun": begun, "ended": ended, **facts}


def held(begun: float, ended: float, connection: str) -> dict[str, Any]:
    return stop(begun, ended, reason=connection, holds=2, held_seconds=0.5, actions={"paused": 1},
                victims=[{"connection": connection, "since": begun, "held_seconds": 0.5}])  # fmt: skip


def test_there_is_one_record_for_each_queue() -> None:
    stops = ShortStops()
    stops.add(stop(1.0, 1.25, cause="12 of 10 messages", peak_count=12), 1.25)
    stops.add(stop(2.0, 2.5, cause="11 of 10 messages", peak_count=11), 2.5)
    stops.add(stop(3.0, 3.125, "other", cause="7 of 6 messages", peak_count=7), 3.125)
    first, other = stops.take_due(1.25 + SUMMED_SECONDS)
    assert (first["queue"], first["stops"], first["seconds"], first["longest"]) == ("q", 2, 0.75, 0.5)
    assert (first["begun"], first["ended"], first["peak_count"]) == (1.0, 2.5, 12)
    assert first["cause"] == "11 of 10 messages", "that of the longest"
    assert (other["queue"], other["stops"], other["seconds"]) == ("other", 1, 0.125)


def test_it_is_written_down_each_minute() -> None:
    stops = ShortStops()
    assert stops.take_due(1e9) == []
    stops.add(stop(1e9, 1e9 + 0.5), 1e9 + 0.5)
    assert stops.take_due(1e9 + SUMMED_SECONDS) == []
    assert len(stops.take_due(1e9 + 0.5 + SUMMED_SECONDS)) == 1
    assert stops.take_all() == []
    stops.add(stop(1e9, 1e9 + 0.5), 2e9)
    assert stops.take_due(2e9 + 1) == [] and len(stops.take_all()) == 1


def test_holds_victims_and_actions_are_summed_up() -> None:
    stops = ShortStops()
    for number in range(2 * VICTIMS):
        stops.add(held(number, number + 0.5, str(number // 2)), number)
    stops.add(held(99, 99.5, "0"), 99)
    (found,) = stops.take_all()
    assert [each["connection"] for each in found["victims"]] == [str(number) for number in range(VICTIMS)]
    assert found["victims"][0] == {"connection": "0", "since": 0, "held_seconds": 1.5}
    assert found["victims"][-1]["held_seconds"] == 1.0
    assert (found["stops"], found["holds"], found["held_seconds"]) == (33, 66, 16.5)
    assert found["actions"] == {"paused": 33}


def test_what_there_is_too_much_of_is_one_record() -> None:
    stops = ShortStops()
    for number in range(3 * MOST):
        stops.add(stop(number, number + 0.5, f"q{number}"), number)
    stops.add(stop(999, 999.5, "q0"), 999)
    found = stops.take_all()
    assert len(found) == MOST + 1
    assert (found[0]["queue"], found[0]["stops"]) == ("q0", 2)
    assert found[-1].items() >= OTHERS.items() and found[-1]["stops"] == 2 * MOST
