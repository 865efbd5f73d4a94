"""`penstock config`: all settings with their origins, and the first mistake."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from ops.configuration import app, settings_of
from penstock.settings import Settings
from penstock.settings.errors import SettingsError
from penstock.settings.sources import known_keys, read_configuration


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a configuration file; the environment has another setting."""
    monkeypatch.setenv("PENSTOCK_FLOW__PARKING_BYTES", "65536")
    path = tmp_path / "penstock.toml"
    path.write_text('port = 5999\nstore = { durability = "interval=50 ms" }\n')
    return path


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None:
        raise done.exception
    return str(done.stdout)


def test_every_setting_is_shown_with_its_origin(file: Path) -> None:
    found = {row["setting"]: row for row in orjson.loads(run("show", "--config", str(file), "--json"))}
    assert list(found) == list(known_keys(Settings))
    assert (found["port"]["value"], found["port"]["origin"]) == (5999, f"in {file}")
    assert (found["flow.parking_bytes"]["value"], found["flow.parking_bytes"]["origin"]) == (
        65536,
        "in the environment",
    )
    assert found["host"] == {"setting": "host", "value": "127.0.0.1", "origin": "default"}


def test_only_those_that_are_given_are_shown_if_that_is_wanted(file: Path) -> None:
    rows = orjson.loads(run("show", "--config", str(file), "--given", "--json"))
    assert [row["setting"] for row in rows] == ["port", "flow.parking_bytes", "store.durability"]


def test_a_configuration_is_checked(file: Path) -> None:
    assert run("check", "--config", str(file)) == "the configuration is valid: 3 settings are given\n"
    file.write_text("prt = 1")
    with pytest.raises(SettingsError, match=f"unknown setting 'prt' in {file}; did you mean 'port'"):
        run("check", "--config", str(file))


def test_without_any_source_all_is_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PENSTOCK_DATA", "PENSTOCK_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert {row["origin"] for row in settings_of(read_configuration())} == {"default"}
