"""`python -m ops.template RUNTIME_DIR DESCRIPTOR`: the process from which those of a node are forked.

Importing its modules costs a process most of a second of CPU time. The template has imported all of them and does
nothing else; it has no thread, and no socket but the one to the supervisor (`ops.forkserver`). A process forked from it
serves at once, and shares the memory of the imported modules.

It forks twice: the intermediate process ends at once, and the supervisor, which adopts orphans (prctl(2),
PR_SET_CHILD_SUBREAPER), becomes the parent of the other.

The first template of a node is itself forked, from the process that becomes the supervisor, before that has a thread or
an open file, but after it has imported all modules: all processes share their memory. A later one, which replaces a
dead template, is a program of its own.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, NoReturn

from ops.claim import PRIVATE_UMASK
from ops.errors import ForkEnded
from penstock import __version__
from penstock.bus import pack, unpack
from penstock.node import collector
from penstock.node.node import Role
from penstock.node.wire_format import WIRE_FORMAT
from penstock.process import process
from penstock.settings.listeners import LISTENERS_MOST

REQUEST_MAX = 4096
"""Bytes of a request, or of the runtime directory's path, at most."""
MODULES: Mapping[Role, str] = {
    "router": "router.process",
    "shard": "shard.process",
    "acceptor": "acceptor.process",
    "console": "console.process",
    "balancer": "ops.balancer.process",
    "relay": "ops.relay.process",
}
"""The module of each role: its `main` is that of the process. If it has a function `prepare`, that runs in the template
with the runtime directory, before the first process of the role is forked.
"""

Main = Callable[..., None]
"""The main function of a process. Arguments: the runtime directory, the index of its place, its incarnation and the
descriptors of its listening sockets, if it has any.
"""
Prepare = Callable[[Path], None]


class Program(NamedTuple):
    """The main function of a role, and what is done once before it."""

    main: Main
    prepare: Prepare | None = None


class Greeting(NamedTuple):
    """The first message of a template, sent once all is imported: its pid, and the release whose code it has."""

    pid: int
    wire_format: int
    version: str

    @classmethod
    def read(cls, message: bytes) -> Greeting:
        """Return the greeting in a message. ValueError or TypeError if there is none."""
        return cls(*unpack(message))


class First(NamedTuple):
    """The first template: its pid, and the supervisor's end of its socket. It waits for the path of the runtime
    directory.
    """

    pid: int
    socket: socket.socket


def fork() -> First:
    """Fork the first template from this process, which must have no thread, and no open file that matters."""
    programs = _import_programs()  # the supervisor would share neither later imports nor the pages that they write to
    collector.collect_and_keep()  # a collection in the template would copy the pages of this process
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        _serve_forked(theirs, programs)
    theirs.close()
    return First(pid, ours)


def _import_programs() -> dict[Role, Program]:
    """Import the modules of all roles."""
    modules = {role: import_module(module) for role, module in MODULES.items()}
    return {role: Program(module.main, getattr(module, "prepare", None)) for role, module in modules.items()}


def _serve_forked(supervisor: socket.socket, programs: Mapping[Role, Program]) -> NoReturn:
    """Be the first template, and any process forked from it. Raises nothing but ForkEnded."""
    try:
        _leave_command(supervisor.fileno())
        runtime = supervisor.recv(REQUEST_MAX)
        if runtime:
            serve(Path(os.fsdecode(runtime)), supervisor.detach(), programs)()
    except SystemExit as end:
        raise ForkEnded(end.code) from None
    except BaseException as error:
        traceback.print_exception(error)
        raise ForkEnded(1) from None
    raise ForkEnded(0)


def _leave_command(descriptor: int) -> None:
    """Take this process out of the command's group, and close all files but standard error and this one. Files that it
    creates are private, as the supervisor's are once that has the data directory.
    """
    os.setpgid(0, 0)
    os.umask(PRIVATE_UMASK)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # standard output belongs to the line that says the node is ready
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))


def serve(runtime: Path, descriptor: int, programs: Mapping[Role, Program]) -> Callable[[], None]:
    """Fork the processes that are requested. Returns only in a forked process, with the function to run there.

    A request is [role, index, incarnation]; the answer is the pid, or [errno] if the fork failed. The greeting is sent
    without a request. SystemExit when the supervisor is gone.
    """
    process.set_name("pstk-template")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a forked process ignores it until it can reread its settings
    process.end_with_parent(runtime)
    collector.collect_and_keep()  # a collection in a forked process would copy its pages
    prepared: set[Role] = set()
    with socket.socket(fileno=descriptor) as supervisor:
        supervisor.send(pack(Greeting(os.getpid(), WIRE_FORMAT, __version__)))
        while True:
            request, inherited, *_ = socket.recv_fds(supervisor, REQUEST_MAX, 1 + LISTENERS_MOST)
            if not request:
                sys.exit()
            role, index, incarnation = unpack(request)
            if role not in prepared:
                prepared.add(role)
                _prepare(programs.get(role), runtime)
            try:
                pid = _fork()
            except OSError as error:
                supervisor.send(pack([error.errno]))
            else:
                if pid == 0:
                    return partial(_run, programs, runtime, role, index, incarnation, *inherited)
                supervisor.send(pack(pid))
            for descriptor in inherited:
                os.close(descriptor)


def _prepare(program: Program | None, runtime: Path) -> None:
    """Do what is done once before the first process of a role. The template outlives its failure: the process has to
    do without, and says itself what that prevents.
    """
    if program is not None and program.prepare is not None:
        try:
            program.prepare(runtime)
        except Exception as error:
            traceback.print_exception(error)


def _run(
    programs: Mapping[Role, Program], runtime: Path, role: Role, index: int, incarnation: int, *inherited: int
) -> None:
    with _leaving_reason(runtime, role, index):
        programs[role].main(runtime, index, incarnation, *inherited)


@contextmanager
def _leaving_reason(runtime: Path, role: str, index: int) -> Iterator[None]:
    """Leave the reason of an unexpected error for the supervisor."""
    try:
        yield
    except Exception as error:
        process.leave_reason(runtime, role, index, f"{type(error).__name__}: {error}")
        raise


def _fork() -> int:
    """Return the pid of the new process; 0 in that process, once the supervisor is its parent."""
    reader, writer = os.pipe()
    intermediate = os.fork()
    if intermediate == 0:
        _fork_again(reader, writer)
        return 0
    os.close(writer)
    with open(reader, "rb") as pipe:
        pid, errno = unpack(pipe.read())
    os.waitpid(intermediate, 0)
    if errno:
        raise OSError(errno, os.strerror(errno))
    return int(pid)


def _fork_again(reader: int, writer: int) -> None:
    """In the intermediate process: fork again, report the pid to the template, end. In the other: return, adopted."""
    intermediate = os.getpid()
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
    while os.getppid() == intermediate:
        time.sleep(0.0002)


def _main(runtime: Path, descriptor: int) -> None:
    """Run the program: a template that imports the modules of all roles itself."""
    with _leaving_reason(runtime, "template", 0):
        programs = _import_programs()
    serve(runtime, descriptor, programs)()


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]))
