"""Notations for the values of settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from penstock.settings.machine import half_the_cores, usable_memory
from penstock.settings.sources import load_settings
from penstock.settings.values import (
    MEMORY_SHARE,
    MIB,
    Bytes,
    Directory,
    Durability,
    LogLevel,
    MemoryLimit,
    ProcessCount,
    ProcessMemory,
)


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("64KiB", 65536), ("1 MiB", MIB), ("2MB", 2_000_000), ("1.5 GiB", 1536 * MIB)]
)
def test_sizes_may_have_a_unit(text: str, size: int) -> None:
    assert load_settings(assignments=[f"flow.parked_memory={text}"]).flow.parked_memory == size


@pytest.mark.parametrize(("text", "names"), [("guest, bob", ("guest", "bob")), ("bob", ("bob",)), ("", ())])
def test_names_are_separated_by_commas(
    text: str, names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings(assignments=[f"amqp.loopback_users={text}"]).amqp.loopback_users == names
    path = tmp_path / "x.toml"
    path.write_text(f"[amqp]\nloopback_users = {list(names)}")
    assert load_settings(path).amqp.loopback_users == names
    monkeypatch.setenv("PENSTOCK_AMQP__LOOPBACK_USERS", text)
    assert load_settings().amqp.loopback_users == names


@pytest.mark.parametrize(("text", "number"), [("-1", -1), (" -1 ", -1), ("0", 0), (5, 5), ("64 KiB", 65536)])
def test_a_size_may_be_a_number_or_no_limit(text: object, number: int) -> None:
    assert TypeAdapter(Bytes).validate_python(text) == number


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("commit", "commit"), ("None", "none"), ("interval=50", "interval=50"), ("Interval = 50 ms", "interval=50"),
        ("interval=999999ms", "interval=999999"),
    ],
)  # fmt: skip
def test_a_durability_may_have_spaces_and_capitals(text: str, meaning: str) -> None:
    assert TypeAdapter(Durability).validate_python(text) == meaning


@pytest.mark.parametrize(
    "text", ["", "fsync", "interval", "interval=", "interval=0", "interval=-5", "interval=1000000"]
)
def test_another_durability_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="is none of commit, interval=N ms, none"):
        TypeAdapter(Durability).validate_python(text)


def test_a_directory_is_absolute_and_may_be_in_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert TypeAdapter(Directory).validate_python("~/data") == tmp_path / "data"
    assert TypeAdapter(Directory).validate_python("data") == Path.cwd() / "data"


def test_log_levels_are_written_in_any_case() -> None:
    assert TypeAdapter(LogLevel).validate_python("WARNING") == "warning"
    with pytest.raises(ValidationError):
        TypeAdapter(LogLevel).validate_python("fatal")


def test_zero_is_filled_in_from_the_machine() -> None:
    assert TypeAdapter(ProcessCount).validate_python(0) == half_the_cores()
    assert TypeAdapter(ProcessMemory).validate_python(0) == usable_memory()
    assert TypeAdapter(MemoryLimit).validate_python("0") == int(usable_memory() * MEMORY_SHARE)
    assert TypeAdapter(ProcessCount).validate_python(7) == 7
    assert TypeAdapter(MemoryLimit).validate_python("1 MiB") == TypeAdapter(ProcessMemory).validate_python(MIB) == MIB
