"""The claim of a node on its data directory: one node at a time holds it, and commands find the node through it.

The directory itself is locked (flock) while the supervisor runs: the lock cannot be removed by deleting a file, and it
ends with the supervisor, however that ends. `DATA/lock` is locked as well, for programs that check only that file, and
contains the supervisor's pid. `DATA/running.json` points to the runtime directory and the gauges file. It outlives a
killed supervisor, so that the next start can remove both.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ops.errors import StartError

LOCK_FILE = "lock"
POINTER_FILE = "running.json"
COMMANDS_SECONDS = 2.0
"""Commands, such as probes, lock the directory for a moment to find out whether a node runs."""
PRIVATE_UMASK = 0o077
"""The file mode creation mask of all processes of a node (umask(2))."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """The pid and places of the node of a data directory, which may have been killed since."""

    pid: int
    runtime: Path
    gauges: Path

    def store(self, data: Path) -> None:
        """Write the pointer to the data directory in one step. OSError if that fails."""
        facts = {"pid": self.pid, "runtime": str(self.runtime), "gauges": str(self.gauges)}
        unfinished = data / f"{POINTER_FILE}.new"
        unfinished.write_text(json.dumps(facts))
        unfinished.replace(data / POINTER_FILE)

    @classmethod
    def load(cls, data: Path) -> Pointer | None:
        """Read the pointer. None if it is missing or unreadable: no node has run, or the last one stopped cleanly."""
        try:
            facts = json.loads((data / POINTER_FILE).read_text())
            return cls(int(facts["pid"]), Path(facts["runtime"]), Path(facts["gauges"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


@contextmanager
def claimed(data: Path) -> Iterator[tuple[int, int]]:
    """Claim the data directory for the context, creating it if need be; yield the descriptors with the locks. Its
    files, and all files created meanwhile, are private to their owner. StartError if it cannot be used or a node runs
    on it.
    """
    with ExitStack() as stack:
        try:
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory = _open(stack, data, os.O_RDONLY | os.O_DIRECTORY)
            _check_own(data, directory)
            lock = _open(stack, data / LOCK_FILE, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StartError(f"cannot use the data directory {data}: {error.strerror}") from None
        for each, patience in ((lock, 0.0), (directory, COMMANDS_SECONDS)):
            try:
                _lock(each, patience)
            except BlockingIOError:
                raise StartError(
                    f"the data directory {data} is in use by another broker (pid {_holder(data, lock)})"
                ) from None
            except OSError as error:
                raise StartError(f"cannot lock the data directory {data}: {error.strerror}") from None
        stack.callback(os.umask, os.umask(PRIVATE_UMASK))
        make_private(data)
        with suppress(OSError):  # on a full disk the pid is missing, the lock holds all the same
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
        _remove_leftovers(data)
        with remaining(data):
            yield lock, directory


@contextmanager
def remaining(data: Path) -> Iterator[None]:
    """The claim of a process that has the locks: at the end, no node runs on the data directory."""
    try:
        yield
    finally:
        (data / POINTER_FILE).unlink(missing_ok=True)


def _open(stack: ExitStack, path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    return descriptor


def _lock(descriptor: int, patience: float) -> None:
    """Lock a file or directory for this process alone. BlockingIOError if others have it for so many seconds."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.01)


def _holder(data: Path, lock: int) -> str:
    """Return the pid of the process that holds the lock, for an error message."""
    pid = os.pread(lock, 32, 0).decode(errors="replace").strip()
    pointer = Pointer.load(data)
    return pid or (str(pointer.pid) if pointer is not None else "unknown")


def is_claimed(data: Path) -> bool:
    """Whether a supervisor holds the data directory. Changes nothing there."""
    try:
        directory = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(directory, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(directory)
    return False


def make_private(data: Path) -> None:
    """Make all files private to their owner: mode 0600, or 0700 for directories and executables. Symbolic links stay
    as they are. StartError if a mode cannot be changed, as for another user's file.
    """
    for place, _, files in os.walk(data):
        for path in (place, *(os.path.join(place, name) for name in files)):
            try:
                mode = os.lstat(path).st_mode
                if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) != (private := _private(mode)):
                    os.chmod(path, private)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StartError(f"cannot make {path} private: {error.strerror}") from None


def _private(mode: int) -> int:
    """Return the private mode of a file or directory; an executable stays executable."""
    return 0o700 if stat.S_ISDIR(mode) or mode & stat.S_IXUSR else 0o600


def _check_own(data: Path, directory: int) -> None:
    """Raise StartError for a world-writable directory such as /tmp: making that private would harm other users."""
    if os.fstat(directory).st_mode & stat.S_IWOTH:
        raise StartError(f"the data directory {data} is world-writable: choose a private one")


def _remove_leftovers(data: Path) -> None:
    """Remove the runtime directory and gauges of a killed supervisor; its children died with it."""
    pointer = Pointer.load(data)
    if pointer is None:
        return
    shutil.rmtree(pointer.runtime, ignore_errors=True)
    with suppress(OSError):
        pointer.gauges.unlink()
    (data / POINTER_FILE).unlink(missing_ok=True)
