"""The audit log: who did what, when, from where, and with what outcome. One record per command, in a file of its own.

    {"when": "2026-11-25T18:42:45.123456Z", "who": {"uid": 0, "user": "root", "login": "alice"},
     "from": {"pid": 4711, "program": "penstock", "terminal": "/dev/pts/0"},
     "command": "user_delete", "arguments": {"name": "bob"}, "outcome": "done"}

`login` is the user who opened the machine's session (proc(5), loginuid): with sudo it differs from `user`. The outcome
is "done", or the reason for the refusal. Records hold no secrets.
"""

from __future__ import annotations

import os
import pwd
import socket
import struct
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

FILE_BYTES = 16 * 1024 * 1024
ARGUMENTS_BYTES = 16 * 1024
"""Larger arguments, such as those of an import, are recorded by their size only."""
SECRET = "password"  # noqa: S105  a part of names
"""Values of arguments with this in their name are not recorded."""
CREDENTIALS = struct.Struct("3i")
NOBODY = 2**32 - 1
"""A loginuid that was not set."""


@dataclass(frozen=True, slots=True)
class Administrator:
    """A process that sends commands, and its user; facts that the machine does not provide are None."""

    uid: int
    pid: int
    login: str | None = None
    program: str | None = None
    terminal: str | None = None

    @classmethod
    def at(cls, connection: socket.socket) -> Administrator:
        """Look up the process at the other end of a Unix socket (unix(7), SO_PEERCRED)."""
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        pid, uid, _ = CREDENTIALS.unpack(credentials)
        return cls.of(uid, pid)

    @classmethod
    def of(cls, uid: int, pid: int) -> Administrator:
        """Look up the facts of a process."""
        login = program = terminal = None
        with suppress(OSError, ValueError):
            number = int(Path(f"/proc/{pid}/loginuid").read_text())
            login = _user(number) if number != NOBODY else None
        with suppress(OSError):
            program = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
        with suppress(OSError, psutil.Error):
            terminal = psutil.Process(pid).terminal()
        return cls(uid, pid, login, program, terminal)

    @property
    def user(self) -> str:
        """The name of the user; its number if it has none."""
        return _user(self.uid) or f"uid {self.uid}"

    @property
    def may_administer(self) -> bool:
        """Whether it is the node's own user, or root."""
        return self.uid in (os.geteuid(), 0)

    def facts(self) -> dict[str, Any]:
        """The facts, as in a record."""
        return {
            "who": {"uid": self.uid, "user": _user(self.uid), "login": self.login},
            "from": {"pid": self.pid, "program": self.program, "terminal": self.terminal},
        }


class Audit:
    """The records that one process of the node writes."""

    def __init__(self, data: Path, role: Role, index: int) -> None:
        self._file = RecordFile(records_path(data, "audit", role, index), FILE_BYTES)

    def record(self, who: Administrator | None, command: str, arguments: dict[str, Any], outcome: str) -> None:
        """Write a record, or log it if it cannot be written. `who` is None if unknown."""
        self._record(who.facts() if who is not None else {"who": None, "from": None}, command, arguments, outcome)

    def record_http(self, user: str, host: str, command: str, arguments: dict[str, Any], outcome: str) -> None:
        """Write the record of a command that a user of the node has sent from a host over HTTP."""
        self._record({"who": {"http_user": user}, "from": {"host": host}}, command, arguments, outcome)

    def _record(self, sender: dict[str, Any], command: str, arguments: dict[str, Any], outcome: str) -> None:
        record = readable(
            {
                "when": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
                **sender,
                "command": command,
                "arguments": _recordable(arguments),
                "outcome": outcome,
            }
        )
        if not self._file.append([record]):
            log.warning("audit", **record)


def outcome_of(answer: dict[str, Any]) -> str:
    """The outcome for a record, from an answer of the control socket."""
    return f"refused: {answer['error']}" if "error" in answer else "done"


def _recordable(arguments: dict[str, Any]) -> Any:
    try:
        safe = _without_secrets(arguments)
        nbytes = len(orjson.dumps(readable(safe)))
    except (TypeError, RecursionError):  # a number that is too large, lists nested too deeply
        return "cannot be recorded"
    if nbytes <= ARGUMENTS_BYTES:
        return safe
    return {name: f"{len(value)} entries" if isinstance(value, list | dict) else "…" for name, value in safe.items()}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "…" if SECRET in str(name) and each else _without_secrets(each) for name, each in value.items()}
    return [_without_secrets(each) for each in value] if isinstance(value, list) else value


def _user(uid: int) -> str | None:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return None


def own() -> Administrator:
    """The facts of this process."""
    return Administrator.of(os.getuid(), os.getpid())
