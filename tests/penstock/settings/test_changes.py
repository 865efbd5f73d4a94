"""Changes between the running configuration and a reloaded one."""

from __future__ import annotations

from pathlib import Path

from penstock.settings import Settings
from penstock.settings.changes import LIVE, changes, with_live
from penstock.settings.sources import Configuration, known_keys, read_configuration


def configuration(tmp_path: Path, *assignments: str) -> Configuration:
    return read_configuration(None, {"data": tmp_path}, assignments)


def test_what_is_given_and_differs_is_a_change(tmp_path: Path) -> None:
    running = configuration(tmp_path, "port=5000", "flow.max_count=7", "store.limit=5 MiB")
    same = configuration(tmp_path, "flow.max_count=7", "port=5000", f"store.limit={5 << 20}")
    assert changes(running, same) == []
    other = configuration(tmp_path, "flow.max_count=8", "log_level=debug", "store.limit=5 MiB", "max_queues=65536")
    found = {change.key: change for change in changes(running, other)}
    assert sorted(found) == ["flow.max_count", "log_level", "port"]
    assert (found["flow.max_count"].running, found["flow.max_count"].configured) == (7, 8)
    assert (found["port"].configured, found["port"].origin) == (5672, "by default")
    assert [key for key, change in found.items() if change.is_live] == ["log_level"]
    assert found["log_level"].origin == "by --set"


def test_only_what_is_live_changes(tmp_path: Path) -> None:
    running, other = configuration(tmp_path), configuration(tmp_path, "port=5000", "log_level=debug")
    assert with_live(running.settings, other.settings) == running.settings.model_copy(update={"log_level": "debug"})


def test_automatic_rebalancing_changes_live_and_the_rest_of_its_section_does_not(tmp_path: Path) -> None:
    running = configuration(tmp_path, "rebalance.low_rate=5")
    other = configuration(
        tmp_path, "rebalance.low_rate=6", "rebalance.automatic.mode=on", "rebalance.automatic.windows=9"
    )
    live = {change.key for change in changes(running, other) if change.is_live}
    assert live == {"rebalance.automatic.mode", "rebalance.automatic.windows"}
    changed = with_live(running.settings, other.settings).rebalance
    assert changed == other.settings.rebalance.model_copy(update={"low_rate": 5})


def test_live_settings_are_settings() -> None:
    keys = known_keys(Settings)
    for live in LIVE:
        assert live in Settings.model_fields or any(key == live or key.startswith(f"{live}.") for key in keys)


def test_relays_come_change_and_go_live(tmp_path: Path) -> None:
    elsewhere = "relays.b.target=amqp://other"
    running = configuration(tmp_path, "relays.a.queue=a", "relays.a.target_queue=b", "relays.b.queue=q", elsewhere)
    other = configuration(tmp_path, "relays.a.queue=a", "relays.a.target_queue=c")
    found = changes(running, other)
    assert all(change.is_live for change in found)
    assert {change.key: (change.running, change.configured) for change in found} == {
        "relays.a.target_queue": ("b", "c"), "relays.b.queue": ("q", None), "relays.b.target": ("amqp://other", None),
    }  # fmt: skip
    assert with_live(running.settings, other.settings).relays == other.settings.relays
