"""The settings of automatic rebalancing: notations, and one clear line for a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.settings import Settings
from penstock.settings.errors import SettingsError
from penstock.settings.sources import load_settings


def test_notations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.toml"
    path.write_text('[rebalance.automatic]\nmode = "ON"\nquiet_hours = ["22:00-06:00", "12:00-13:00"]\n')
    found = load_settings(path).rebalance.automatic
    assert (found.mode, found.quiet_hours) == ("on", ("22:00-06:00", "12:00-13:00"))
    monkeypatch.setenv("PENSTOCK_REBALANCE__AUTOMATIC__QUIET_HOURS", "00:00-24:00, 01:00-02:00")
    found = load_settings(
        path, None, ["rebalance.automatic.goals=load,bytes", "rebalance.automatic.bytes_per_day=5 GiB"]
    )
    assert found.rebalance.automatic.quiet_hours == ("00:00-24:00", "01:00-02:00")
    assert found.rebalance.automatic.goals == ("load", "bytes")
    assert found.rebalance.automatic.bytes_per_day == 5 << 30
    assert Settings.from_resolved(found.model_dump(mode="json")).rebalance == found.rebalance


@pytest.mark.parametrize(
    ("assignment", "reason"),
    [
        ("quiet_hours=22-6", "'22-6' is not a span of the day such as 22:00-06:00, got '22-6' (by --set)"),
        ("quiet_hours=01:00-02:00,25:00-26:00", "there is no time 25:00, in '25:00-26:00', got "),
        ("quiet_hours=06:00-06:00", "'06:00-06:00' lasts no time; for the whole day give no span, or 00:00-24:00"),
        ("mode=maybe", "Input should be 'off', 'dry-run' or 'on', got 'maybe' (by --set)"),
        ("goals=load,cpu", "Input should be 'load', 'held', 'bytes' or 'queues'"),
        ("goals=", "Tuple should have at least 1 item"),
        ("windows=0", "Input should be greater than or equal to 1"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(assignment: str, reason: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(assignments=[f"rebalance.automatic.{assignment}"])
    assert str(refused.value).startswith(f"rebalance.automatic.{assignment.partition('=')[0]}")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
