"""Sources of settings, their precedence, and the message for a wrong value."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.settings import Settings
from penstock.settings.machine import half_the_cores
from penstock.settings.sources import known_keys, load_settings
from penstock.settings.values import MIB
from tests.penstock.settings.conftest import complaint


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "penstock.toml"
    path.write_text("port = 1001\nshards = 3\n[flow]\nmax_count = 11\nmax_bytes = '1 MiB'\n")
    return path


def test_defaults() -> None:
    settings = load_settings()
    assert (settings.host, settings.port, settings.log_level) == ("127.0.0.1", 5672, "info")
    assert settings.acceptors == settings.shards == half_the_cores() >= 1
    assert settings.data.is_absolute()
    assert settings.data.name == "penstock"
    assert settings.memory_limit > 0
    assert (settings.amqp.frame_max, settings.amqp.channel_max, settings.amqp.heartbeat) == (131072, 2047, 60)
    assert settings.amqp.max_message_size == 128 * MIB
    assert (settings.flow.max_count, settings.flow.stop_percent, settings.flow.resume_percent) == (0, 80, 70)


def test_later_sources_win(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings(config).port == 1001
    monkeypatch.setenv("PENSTOCK_PORT", "1002")
    monkeypatch.setenv("PENSTOCK_FLOW__MAX_COUNT", "12")
    assert load_settings(config).port == 1002
    assert load_settings(config, {"port": 1003, "shards": None}).port == 1003
    settings = load_settings(config, {"port": 1003}, ["port=1004", "port=1005", "flow.stop_percent = 90"])
    assert settings.port == 1005
    assert settings.shards == 3
    assert (settings.flow.max_count, settings.flow.max_bytes, settings.flow.stop_percent) == (12, MIB, 90)
    assert settings.flow.resume_percent == 70


def test_counts_of_zero_are_resolved() -> None:
    settings = load_settings(flags={"acceptors": 0, "shards": 5})
    assert (settings.acceptors, settings.shards) == (half_the_cores(), 5)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("prot", "port"),
        ("flow.max_cont", "flow.max_count"),
        ("max_count", "flow.max_count"),
        ("amqp.max_bytes", "flow.max_bytes"),
        ("log-level", "log_level"),
        ("flow.resume", "flow.resume_percent"),
    ],
)
def test_unknown_keys_name_the_nearest(key: str, nearest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complaint(f"{key}=1") == f"unknown setting {key!r} by --set; did you mean {nearest!r}?"
    path = tmp_path / "x.toml"
    path.write_text(f"{key} = 1")
    assert complaint(config=path) == f"unknown setting {key!r} in {path}; did you mean {nearest!r}?"
    name = "PENSTOCK_" + key.upper().replace(".", "__")
    monkeypatch.setenv(name, "1")
    assert complaint() == f"unknown setting {key!r} in the environment ({name}); did you mean {nearest!r}?"


@given(st.text("abcdefghijklmnopqrstuvwxyz_.-", min_size=1))
def test_any_key_is_known_or_refused_in_one_line(key: str) -> None:
    if key in known_keys(Settings):
        return
    said = complaint(f"{key}=1")
    assert "did you mean" in said or "is a section, not a setting" in said


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("port=70000", "port: Input should be less than or equal to 65535, got '70000' (by --set)"),
        ("port=x", "port: Input should be a valid integer"),
        ("port.x=1", "port: Input should be a valid integer"),
        ("flow=1", "'flow' is a section, not a setting"),
        ("flow.max_bytes=lots", "flow.max_bytes: 'lots' is not an amount: write it like 10000, 10 MB, 512 KiB or 80 %"),
        ("flow.resume_percent=81", "flow: resume_percent (81) is above stop_percent (80)"),
        ("log_level=loud", "log_level: Input should be 'debug', 'info', 'warning' or 'error', got 'loud'"),
        ("shards=255", "shards (255) and spare_shards (4) are more than 255 together"),
        ("host=", "host: String should have at least 1 character"),
        ("nonsense", "--set wants KEY=VALUE, not 'nonsense'"),
        ("=1", "--set wants KEY=VALUE, not '=1'"),
    ],
)
def test_wrong_values_are_named_with_their_origin(assignment: str, words: str) -> None:
    assert complaint(assignment).startswith(words)


@pytest.mark.parametrize(
    ("contents", "words"), [(b"port = ", "Invalid value"), (b"\xff", "invalid start byte"), (b"[flow\n", "Expected")]
)
def test_a_file_that_is_no_toml_is_named(contents: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(contents)
    text = complaint(config=path)
    assert text.startswith(f"cannot read {path}: ")
    assert words in text


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert complaint(config=tmp_path / "no.toml") == f"cannot read {tmp_path / 'no.toml'}: no such file"
    assert complaint(config=tmp_path) == f"cannot read {tmp_path}: not a file"


def test_a_child_rebuilds_the_same_settings_and_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings(assignments=["flow.max_count=5", "shards=7"])
    monkeypatch.setenv("PENSTOCK_PORT", "9")
    monkeypatch.setenv("PENSTOCK_NONSENSE", "9")
    assert Settings.from_resolved(settings.model_dump(mode="json")) == settings
    assert Settings().port == 5672


def test_names_of_other_brokers(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('default-queue-limit = "10 MB"\n[systemUsage]\nmemoryUsage = "64 MiB"\ntempUsage = "1 GiB"\n')
    settings = load_settings(path, assignments=["default-flow-stop-threshold=90", "systemUsage.storeUsage=2 GB"])
    assert (settings.flow.max_bytes, settings.flow.stop_percent) == (10_000_000, 90)
    assert (settings.memory_limit, settings.store.limit, settings.store.spill_limit) == (
        64 * MIB,
        2_000_000_000,
        1024 * MIB,
    )
    path.write_text('default-queue-limit = "10 MB"\n[flow]\nmax_bytes = 5\n')
    assert complaint(config=path) == f"'default-queue-limit' and 'flow.max_bytes' are the same setting (in {path})"
    path.write_text("[systemUsage]\nmemoryUsge = 5\n")
    assert complaint(config=path).startswith("unknown setting 'systemUsage' ")
