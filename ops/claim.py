"""One node at a time on a data directory, and how others find the node that runs there.

The directory itself is locked (flock) for as long as the supervisor lives, however it ends: a lock that nobody can take
away by deleting a file. `DATA/lock` is locked as well, for who looks only there, and holds the supervisor's pid.
`DATA/running.json` points to the runtime directory and the gauges file. It outlives a killed supervisor, so that
the next start removes what that one could not.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
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
    """Hold the data directory, creating it if need be; what it has and what is made meanwhile is for its owner alone.
    StartError if it cannot be used or a node runs on it.
    """
    with ExitStack() as stack:
        try:
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory = _opened(stack, data, os.O_RDONLY | os.O_DIRECTORY)
            _check_own(data, directory)
            lock = _opened(stack, data / LOCK_FILE, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StartError(f"cannot use the data directory {data}: {error.strerror}") from None
        for each in (directory, lock):
            try:
                fcntl.flock(each, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StartError(
                    f"the data directory {data} is in use by another broker (pid {_holder(data, lock)})"
                ) from None
            except OSError as error:
                raise StartError(f"cannot lock the data directory {data}: {error.strerror}") from None
        stack.callback(os.umask, os.umask(0o077))
        make_private(data)
        with suppress(OSError):  # a full disk: nobody is told the pid, the lock holds all the same
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
        _remove_leftovers(data)
        try:
            yield
        finally:
            (data / POINTER_FILE).unlink(missing_ok=True)


def _opened(stack: ExitStack, path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    return descriptor


def _holder(data: Path, lock: int) -> str:
    """The pid of who has it, for a person."""
    pid = os.pread(lock, 32, 0).decode(errors="replace").strip()
    left = Pointer.load(data)
    return pid or (str(left.pid) if left is not None else "unknown")


def is_claimed(data: Path) -> bool:
    """Whether a supervisor lives on the data directory; changes nothing there."""
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
    """Nobody but their owner may look into what is there: files of mode 0600 in directories of mode 0700. Links lead
    elsewhere, and stay as they are. StartError if something is another user's.
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
                raise StartError(f"cannot keep {path} from others: {error.strerror}") from None


def _private(mode: int) -> int:
    """A program that somebody keeps there stays one."""
    return 0o700 if stat.S_ISDIR(mode) or mode & stat.S_IXUSR else 0o600


def _check_own(data: Path, directory: int) -> None:
    """StartError for a directory that all may write to, as /tmp: to make that private would harm others."""
    if os.fstat(directory).st_mode & stat.S_IWOTH:
        raise StartError(f"the data directory {data} can be written by all: give one of its own")


def _remove_leftovers(data: Path) -> None:
    """What a killed supervisor left; its children died with it."""
    left = Pointer.load(data)
    if left is None:
        return
    shutil.rmtree(left.runtime, ignore_errors=True)
    with suppress(OSError):
        left.gauges.unlink()
    (data / POINTER_FILE).unlink(missing_ok=True)
