"""Audit records of administrators' commands."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from penstock.control.audit import ARGUMENTS_BYTES, Administrator, Audit, outcome_of, own
from penstock.files.record_file import read_records, records_path


def noted(data: Path, **arguments: Any) -> dict[str, Any]:
    Audit(data, "router", 0).record(own(), "do", arguments, outcome_of({"result": None}))
    return list(read_records(records_path(data, "audit", "router", 0)))[-1]


def test_who_what_when_from_where(tmp_path: Path) -> None:
    record = noted(tmp_path, name="bob", tags=["none"])
    assert record.pop("when").endswith("Z")
    record["who"].pop("login")  # known on some machines
    assert record["who"] == {"uid": os.getuid(), "user": pwd.getpwuid(os.getuid()).pw_name}
    assert (record["from"]["pid"], record["command"], record["outcome"]) == (os.getpid(), "do", "done")
    assert record["from"]["program"]
    assert record["arguments"] == {"name": "bob", "tags": ["none"]}


def test_secrets_are_in_no_record(tmp_path: Path) -> None:
    users = [{"name": "a", "password_hash": "secret"}, {"name": "b", "password_hash": "secret"}]
    record = noted(tmp_path, password_hash="secret", users=users, password=None)
    assert "secret" not in json.dumps(record)
    assert record["arguments"]["users"][1] == {"name": "b", "password_hash": "…"}
    assert record["arguments"]["password"] is None


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        (["x" * 100] * ARGUMENTS_BYTES, f"{ARGUMENTS_BYTES} entries"),
        ("x" * 2 * ARGUMENTS_BYTES, "…"),
        ("caf\udcff", "caf\ufffd"),
    ],
)
def test_any_argument_makes_a_record_of_bounded_size(tmp_path: Path, value: object, reported: str) -> None:
    assert noted(tmp_path, value=value)["arguments"] == {"value": reported}


def test_what_json_cannot_say(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    for value in (1 << 70, deep):
        assert noted(tmp_path, value=value)["arguments"] == "cannot be recorded"


def test_who_is_gone_already(tmp_path: Path) -> None:
    gone = Administrator.of(4711, 2**22 + 1)
    assert (gone.uid, gone.login, gone.program, gone.terminal) == (4711, None, None, None)
    Audit(tmp_path, "router", 0).record(gone, "do", {}, outcome_of({"error": "no", "kind": "invalid"}))
    (record,) = read_records(records_path(tmp_path, "audit", "router", 0))
    assert (record["who"]["user"], record["outcome"]) == (None, "refused: no")


def test_what_the_disk_does_not_take_is_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "audit").touch()
    with capture_logs() as lines:
        Audit(tmp_path, "router", 0).record(None, "do", {"name": "bob"}, "done")
    (line,) = [line for line in lines if line["event"] == "audit"]
    assert (line["command"], line["arguments"], line["outcome"]) == ("do", {"name": "bob"}, "done")
