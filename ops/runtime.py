"""The runtime directory: private to the user, removed with the node, its path short enough for sockets in it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ops.errors import StartError

PREFIX = "penstock-"
SOCKET_PATH_MAX = 107
"""Longest path of a UNIX socket on Linux, in bytes (unix(7): 108 with the final zero)."""
LONGEST_NAME = len("/supervisor.reports.........")


@contextmanager
def runtime_directory() -> Iterator[Path]:
    """Make a runtime directory, mode 0700, and remove it at the end. StartError if there is no place for one."""
    for base in _bases():
        if not os.path.isabs(base):
            continue
        try:
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        except OSError:
            continue
        if len(os.fsencode(path)) + LONGEST_NAME <= SOCKET_PATH_MAX:
            break
        path.rmdir()
    else:
        raise StartError("no place for a runtime directory: set XDG_RUNTIME_DIR or TMPDIR to a short, writable path")
    with remaining(path):
        yield path


@contextmanager
def remaining(path: Path) -> Iterator[None]:
    """Remove a runtime directory at the end."""
    try:
        yield
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _bases() -> Iterator[str]:
    """Yield the directories that may have a runtime directory. The ones for temporary files are looked for if need be:
    in a container there may be none that is writable.
    """
    yield os.environ.get("XDG_RUNTIME_DIR", "")
    try:
        temporary = tempfile.gettempdir()
    except FileNotFoundError:
        return
    yield from (temporary, "/tmp")  # noqa: S108  only a directory of its own in it
