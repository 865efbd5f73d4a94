"""What administrators did: who, what, when, from where, and what became of it. A record each, in a file of its own.

    {"when": "2026-11-25T18:42:45.123456Z", "who": {"uid": 0, "user": "root", "login": "alice"},
     "from": {"pid": 4711, "program": "penstock", "terminal": "/dev/pts/0"},
     "command": "user_delete", "arguments": {"name": "bob"}, "outcome": "done"}

`login` is whom the machine's session was opened for (proc(5), loginuid): with sudo that is not `user`. The outcome is
"done", or why it was refused. Secrets are in no record.
"""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import psutil

from penstock.files.record_file import RecordFile, records_path
from penstock.node.logs import get_logger
from penstock.node.node import Role
from penstock.text.utf8 import readable

log = get_logger()

FILE_OCTETS = 16 * 1024 * 1024
ARGUMENTS_OCTETS = 16 * 1024
"""Larger arguments, as those of an import, are told by their size."""
SECRET = "password"
"""What has that in its name is in no record."""
NOBODY = 2**32 - 1
"""A loginuid that was not set."""


@dataclass(frozen=True, slots=True)
class Administrator:
    """A process that commands, and whose it is; what the machine does not say is None."""

    uid: int
    pid: int
    login: str | None = None
    program: str | None = None
    terminal: str | None = None

    @classmethod
    def of(cls, uid: int, pid: int) -> Administrator:
        login = program = terminal = None
        with suppress(OSError, ValueError):
            number = int(Path(f"/proc/{pid}/loginuid").read_text())
            login = _user(number) if number != NOBODY else None
        with suppress(OSError):
            program = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
        with suppress(OSError, psutil.Error):
            terminal = psutil.Process(pid).terminal()
        return cls(uid, pid, login, program, terminal)

    def facts(self) -> dict[str, Any]:
        return {
            "who": {"uid": self.uid, "user": _user(self.uid), "login": self.login},
            "from": {"pid": self.pid, "program": self.program, "terminal": self.terminal},
        }


class Audit:
    """The records that one process of the node writes."""

    def __init__(self, data: Path, role: Role, index: int) -> None:
        self._file = RecordFile(records_path(data, "audit", role, index), FILE_OCTETS)

    def note(self, who: Administrator | None, command: str, arguments: dict[str, Any], outcome: str) -> None:
        """Write a record; into the log if the disk does not take it. `who` is None where that is not known."""
        record = readable(
            {
                "when": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
                **(who.facts() if who is not None else {"who": None, "from": None}),
                "command": command,
                "arguments": _told(arguments),
                "outcome": outcome,
            }
        )
        if not self._file.append([record]):
            log.warning("audit", **record)


def outcome_of(answer: dict[str, Any]) -> str:
    """Of an answer of the control socket."""
    return f"refused: {answer['error']}" if "error" in answer else "done"


def _told(arguments: dict[str, Any]) -> Any:
    try:
        told = _without_secrets(arguments)
        octets = len(orjson.dumps(readable(told)))
    except (TypeError, RecursionError):  # a number that is too large, lists in lists in lists
        return "cannot be told"
    if octets <= ARGUMENTS_OCTETS:
        return told
    return {name: f"{len(value)} entries" if isinstance(value, list | dict) else "…" for name, value in told.items()}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "…" if SECRET in str(name) and each else _without_secrets(each) for name, each in value.items()}
    return [_without_secrets(each) for each in value] if isinstance(value, list) else value


def _user(uid: int) -> str | None:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return None


def own() -> Administrator:
    """This process."""
    return Administrator.of(os.getuid(), os.getpid())
