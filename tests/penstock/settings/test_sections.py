"""The sections of the settings: their bounds, and what follows from their values."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from penstock.limits.watermarks import FlowDefaults
from penstock.settings import Settings
from penstock.settings.machine import usable_memory
from penstock.settings.sections import (
    UNHURRIED_MS,
    AmqpSettings,
    FlowSettings,
    MemorySettings,
    StoreSettings,
    TelemetrySettings,
    WatchdogSettings,
)
from penstock.settings.sources import load_settings
from tests.penstock.settings.conftest import complaint


def test_every_setting_says_what_it_means_and_numbers_have_bounds() -> None:
    schema = Settings.model_json_schema()
    for model in (schema, *schema["$defs"].values()):
        for name, field in model.get("properties", {}).items():  # none: a choice
            if "$ref" in field:
                continue
            assert field["description"], name
            if field.get("type") in ("integer", "number"):
                assert "minimum" in field or "exclusiveMinimum" in field, name


@pytest.mark.parametrize(("shards", "spare"), [(255, 0), (251, 4), (1, 254)])
def test_every_shard_and_spare_one_has_an_index(shards: int, spare: int) -> None:
    """One index of the 256 in a byte stands for no shard."""
    assert Settings(shards=shards, spare_shards=spare).shards == shards
    with pytest.raises(
        ValidationError, match=f"shards \\({shards}\\) and spare_shards \\({spare + 1}\\) are more than"
    ):
        Settings(shards=shards, spare_shards=spare + 1)


def test_settings_cannot_be_changed() -> None:
    settings = Settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.port = 1
    with pytest.raises(ValueError, match="frozen"):
        settings.flow.max_count = 1


@pytest.mark.parametrize("section", ["flow", "memory", "store"])
def test_resume_above_stop_is_refused(section: str) -> None:
    text = complaint(f"{section}.stop_percent=50", f"{section}.resume_percent=60")
    assert text == f"{section}: resume_percent (60) is above stop_percent (50)"


def test_a_watchdog_has_to_have_patience() -> None:
    assert load_settings(assignments=["watchdog.seconds=0"]).watchdog.seconds == 0
    assert "seconds (1) is below 2" in complaint("watchdog.seconds=1")


def test_a_watchdog_needs_two_seconds_if_it_is_not_off() -> None:
    assert WatchdogSettings(seconds=2).seconds == 2
    with pytest.raises(ValidationError, match=r"seconds \(1\.9\) is below 2"):
        WatchdogSettings(seconds=1.9)


@pytest.mark.parametrize(("durability", "ms"), [("commit", 0), ("interval=50 ms", 50), ("none", UNHURRIED_MS)])
def test_the_interval_of_flushes_follows_from_the_durability(durability: str, ms: int) -> None:
    assert StoreSettings(durability=durability).flush_ms == ms


def test_the_defaults_of_a_queue_are_those_of_flow() -> None:
    flow = FlowSettings.model_validate({"max_count": 7, "max_bytes": "1 KiB", "stop_percent": 60, "resume_percent": 60})
    assert flow.defaults == FlowDefaults(7, 1024, 60, 60)


def test_a_process_limit_of_zero_is_all_the_memory() -> None:
    assert MemorySettings().process_limit == usable_memory()


@pytest.mark.parametrize(
    ("section", "values"),
    [
        (AmqpSettings, {"frame_max": 4095}), (AmqpSettings, {"channel_max": 0}), (AmqpSettings, {"heartbeat": 65536}),
        (AmqpSettings, {"product": "activemq"}), (FlowSettings, {"last_resort": "drop"}),
        (FlowSettings, {"pair_count": 63}),
        (TelemetrySettings, {"node": "a/b"}), (TelemetrySettings, {"node": "x" * 65}), (StoreSettings, {"limits": 1}),
    ],
)  # fmt: skip
def test_values_beyond_the_bounds_are_refused(section: type[BaseModel], values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        section.model_validate(values)
