"""One node at a time on a data directory, and how others find the node that runs there.

`DATA/lock` is locked (flock) for as long as the supervisor lives, however it ends; it holds the supervisor's pid.
`DATA/running.json` points to the runtime directory and the gauges file. It outlives a killed supervisor, so that
the next start removes what that one could not.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ops.errors import StartError

LOCK_FILE = "lock"
POINTER_FILE = "running.json"


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where the node of a data directory is, or was when it was killed."""

    pid: int
    runtime: Path
    gauges: Path

    def store(self, data: Path) -> None:
        facts = {"pid": self.pid, "runtime": str(self.runtime), "gauges": str(self.gauges)}
        unfinished = data / f"{POINTER_FILE}.new"
        unfinished.write_text(json.dumps(facts))
        unfinished.replace(data / POINTER_FILE)

    @classmethod
    def load(cls, data: Path) -> Pointer | None:
        """None if no node has run on the directory, or the last one stopped in order."""
        try:
            facts = json.loads((data / POINTER_FILE).read_text())
            return cls(int(facts["pid"]), Path(facts["runtime"]), Path(facts["gauges"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


@contextmanager
def claimed(data: Path) -> Iterator[None]:
    """Hold the data directory, creating it if need be. StartError if it cannot be used or a node runs on it."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(data / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartError(f"cannot use the data directory {data}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            raise StartError(f"the data directory {data} is in use by another broker (pid {pid})") from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        _remove_leftovers(data)
        try:
            yield
        finally:
            (data / POINTER_FILE).unlink(missing_ok=True)
    finally:
        os.close(lock)


def is_claimed(data: Path) -> bool:
    """Whether a supervisor lives on the data directory; changes nothing there."""
    try:
        lock = os.open(data / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _remove_leftovers(data: Path) -> None:
    """What a killed supervisor left; its children died with it."""
    left = Pointer.load(data)
    if left is None:
        return
    shutil.rmtree(left.runtime, ignore_errors=True)
    with suppress(OSError):
        left.gauges.unlink()
    (data / POINTER_FILE).unlink(missing_ok=True)
