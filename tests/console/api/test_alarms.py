"""Alarms, from the gates of shards."""

from __future__ import annotations

from pathlib import Path

from console.api.alarms import alarms, in_alarm
from tests.console.scene import Scene


def test_a_gate_that_holds_producers_is_an_alarm_of_its_resource(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    assert in_alarm(scene.broker) == (False, False) and alarms(scene.broker) == []
    scene.hold(1, 2, "store is full")
    assert in_alarm(scene.broker) == (False, True)
    (found,) = alarms(scene.broker)
    assert (found["resource"], found["shard"], found["reason"]) == ("disk", 1, "store is full")
    scene.hold(0, 1, "the node's processes use too much")
    assert in_alarm(scene.broker) == (True, True)
    assert [each["resource"] for each in alarms(scene.broker)] == ["memory", "disk"]
