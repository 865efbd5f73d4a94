"""`python -m ops.template RUNTIME_DIR DESCRIPTOR`: what the processes of a node are forked from.

To import what a process runs on costs it most of a second of processor time. This one has imported all of it and does
nothing else, has no thread and no socket but the one to the supervisor (`ops.forkserver`), so that a process forked
from it serves at once, and shares with it the memory of what was imported.

It forks twice: who is between ends at once, and the supervisor, which adopts orphans, is the parent of the other
(prctl(2), PR_SET_CHILD_SUBREAPER).
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path

from penstock.bus import pack, unpack
from penstock.node import collector
from penstock.node.node import Role
from penstock.process import process

REQUEST_MAX = 4096
"""Octets of a request, at most."""
ROLES: tuple[Role, ...] = ("router", "shard", "acceptor", "console")

Main = Callable[..., None]
"""What a process runs: of the runtime directory, the index of its place, its incarnation, and, of an acceptor, the
descriptor of what it listens on.
"""


def serve(runtime: Path, descriptor: int, mains: Mapping[Role, Main]) -> Callable[[], None]:
    """Fork who is asked for; returns only in who was forked, with what is to run there.

    A request is [role, index, incarnation], the answer its pid, or [errno] where there can be no more processes. The
    first answer comes without a request, when all is imported. SystemExit once the supervisor has gone.
    """
    process.set_name("pstk-template")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # whoever is forked ignores it until it can read its settings again
    process.end_with_parent(runtime)
    collector.collect_and_keep()  # what is collected in a copy only would be copied for that
    with socket.socket(fileno=descriptor) as supervisor:
        supervisor.send(pack(os.getpid()))
        while True:
            request, inherited, *_ = socket.recv_fds(supervisor, REQUEST_MAX, 1)
            if not request:
                sys.exit()
            role, index, incarnation = unpack(request)
            try:
                pid = _fork()
            except OSError as error:
                supervisor.send(pack([error.errno]))
            else:
                if pid == 0:
                    return partial(_run, mains[role], runtime, role, index, incarnation, *inherited)
                supervisor.send(pack(pid))
            for descriptor in inherited:
                os.close(descriptor)


def _run(main: Main, runtime: Path, role: Role, index: int, incarnation: int, *inherited: int) -> None:
    with _reason_left(runtime, role, index):
        main(runtime, index, incarnation, *inherited)


@contextmanager
def _reason_left(runtime: Path, role: str, index: int) -> Iterator[None]:
    """What nobody expected is known to the supervisor as well."""
    try:
        yield
    except Exception as error:
        process.leave_reason(runtime, role, index, f"{type(error).__name__}: {error}")
        raise


def _fork() -> int:
    """Its pid; 0 in it, once the supervisor is its parent."""
    reader, writer = os.pipe()
    between = os.fork()
    if between == 0:
        _end_between(reader, writer)
        return 0
    os.close(writer)
    with open(reader, "rb") as told:
        pid, errno = unpack(told.read())
    os.waitpid(between, 0)
    if errno:
        raise OSError(errno, os.strerror(errno))
    return int(pid)


def _end_between(reader: int, writer: int) -> None:
    """In who is between: fork once more, tell the template and end. In who is forked: return, adopted."""
    between = os.getpid()
    try:
        pid, errno = os.fork(), 0
    except OSError as error:
        pid, errno = -1, error.errno or 0
    if pid:
        if pid > 0:
            os.setpgid(pid, pid)  # Ctrl-C in a terminal reaches the supervisor alone, which stops the others in order
        os.write(writer, pack([pid, errno]))
        os._exit(0)
    os.close(reader)
    os.close(writer)
    while os.getppid() == between:
        time.sleep(0.0002)


def main() -> None:
    runtime = Path(sys.argv[1])
    with _reason_left(runtime, "template", 0):
        mains = {role: import_module(f"{role}.process").main for role in ROLES}
    serve(runtime, int(sys.argv[2]), mains)()


if __name__ == "__main__":
    main()
