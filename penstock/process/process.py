"""Requests of a node's process to the kernel: its name, its end with its parent, its signals (Linux).

A child calls `enter` first of all. It reads the supervisor's pid from a file: the supervisor may have died before the
call, and then the death signal never arrives.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn

import setproctitle
import zmq

from penstock import bus
from penstock.bus.process_messages import ProcessMessage
from penstock.node import clock, logs
from penstock.node.node import Node, Role

PARENT_FILE = "supervisor.pid"
NAME_MAX = 15
"""Bytes of a process name that the kernel keeps (prctl(2), PR_SET_NAME)."""

OWN_FILES = 128
"""Open files that a process needs for itself, and for connections about to be refused."""

HAND_OVER = signal.SIGUSR2
"""The signal for a shard whose next incarnation follows at once: it ends in order, and leaves that all messages."""

LINGER_MS = 10_000
"""How long a report waits for the supervisor, which may just be replaced, in milliseconds."""

REFUSED_STATUS = 78
"""Exit status of a process that cannot start under the conditions it finds (EX_CONFIG of sysexits.h)."""

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def record_parent(runtime: Path) -> None:
    """Write the supervisor's pid into the runtime directory, before it starts a child."""
    (runtime / PARENT_FILE).write_text(str(os.getpid()))


def enter(runtime: Path, role: Role, index: int) -> None:
    """Set this child's name for `ps`, and make it end with its supervisor; its first call. SystemExit if the supervisor
    is gone.

    At SIGUSR1 the child writes the stacks of its threads to `stack_file`, even while it is busy.
    """
    set_name(process_name(role, index))
    end_with_parent(runtime)
    faulthandler.register(signal.SIGUSR1, stack_file(runtime, role, index).open("w"), all_threads=True)


def begin(runtime: Path, role: Role, index: int) -> tuple[Node, asyncio.Event]:
    """Begin this child's work, within its event loop: with its signals, the node's clock and its log.

    Return its node, and the event that is set when it is asked to terminate.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    on_terminate(loop, stop.set)
    on_reload(loop, partial(logs.read_level, runtime))
    node = Node.load(runtime)
    clock.adopt(node.clock_ahead_us)
    logs.configure(node.settings, role, index)
    return node, stop


def stack_file(runtime: Path, role: Role, index: int) -> Path:
    """The file for a child's stacks of threads."""
    return runtime / f"{role}-{index}.stack"


def end_with_parent(runtime: Path) -> None:
    """End when the supervisor ends. SystemExit if it is already gone."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = int((runtime / PARENT_FILE).read_text())
    if os.getppid() != parent:
        sys.exit(f"the supervisor (pid {parent}) is gone")


def adopt_orphans() -> None:
    """Become the parent of descendants whose parents end (prctl(2), PR_SET_CHILD_SUBREAPER)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def process_name(role: Role, index: int) -> str:
    """`pstk-acceptor-0`; if it is too long for the kernel, the role is cut, never the index."""
    tail = f"-{index}"
    return f"pstk-{role}"[: NAME_MAX - len(tail)] + tail


def set_name(name: str) -> None:
    """Name this process, in `ps` with and without arguments; without them the name is cut to `NAME_MAX` bytes."""
    setproctitle.setproctitle(name)


def refuse(runtime: Path, role: Role, index: int, reason: str) -> NoReturn:
    """End a process that cannot start under the conditions it finds. The supervisor logs the reason."""
    leave_reason(runtime, role, index, reason)
    sys.exit(REFUSED_STATUS)


def leave_reason(runtime: Path, role: str, index: int, reason: str) -> None:
    """Leave the supervisor the reason, in one line, why a process ends. If that cannot be written, only its own log has
    it.
    """
    with suppress(OSError):
        _reason(runtime, role, index).write_text(" ".join(reason.split()), errors="replace")


def take_reason(runtime: Path, role: str, index: int) -> str:
    """Read and remove the reason why the last process of a place ended; "" if it left none."""
    path = _reason(runtime, role, index)
    try:
        reason = path.read_text()
        path.unlink()
    except OSError:
        return ""
    return reason


def _reason(runtime: Path, role: str, index: int) -> Path:
    return runtime / f"{role}-{index}.reason"


def on_terminate(loop: asyncio.AbstractEventLoop, stop: Callable[[], object]) -> None:
    """Call `stop` in the loop when the supervisor, or a person, asks this child to end."""
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


def on_reload(loop: asyncio.AbstractEventLoop, reread: Callable[[], object]) -> None:
    """Call `reread` in the loop when the supervisor has replaced the node file. Call this before reading the file."""
    loop.add_signal_handler(signal.SIGHUP, reread)


def keep_buffers() -> None:
    """Keep freed buffers of up to 32 MiB in the process (mallopt(3)); call before any thread starts.

    Returned to the kernel, they would cost a page fault every 4 KiB when they are allocated again. Only glibc can be
    told; musl decides by itself.
    """
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        _libc.mallopt(_M_TRIM_THRESHOLD, 64 << 20)


def give_back_buffers() -> None:
    """Return freed buffers to the kernel (malloc_trim(3)): takes some 50 ms a GiB, during which nothing is freed. Only
    glibc keeps any.
    """
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)


def report_ready(context: zmq.Context[Any], node: Node, role: Role, index: int, incarnation: int) -> None:
    """Report to the supervisor that this child serves."""
    _report(context, node, "ready", role, index, incarnation)


def ask_for_restart(context: zmq.Context[Any], node: Node, role: Role) -> None:
    """Ask the supervisor to replace the processes of a role, one after the other."""
    _report(context, node, "restart", role, 0, 0)


def ask_for_upgrade(context: zmq.Context[Any], node: Node) -> None:
    """Ask the supervisor to replace all processes by those of the installed release."""
    _report(context, node, "upgrade", "router", 0, 0)


def ask_for_shard(context: zmq.Context[Any], node: Node, index: int, *, there: bool) -> None:
    """Ask the supervisor to start a missing shard, or to end one for good. A repeat does nothing."""
    _report(context, node, "begin" if there else "end", "shard", index, 0)


def _report(
    context: zmq.Context[Any],
    node: Node,
    event: Literal["ready", "restart", "upgrade", "begin", "end"],
    role: Role,
    index: int,
    incarnation: int,
) -> None:
    socket: zmq.Socket[bytes] = context.socket(zmq.PUSH)
    socket.connect(node.process_reports)
    socket.send(bus.pack(ProcessMessage(event, role, index, incarnation, os.getpid())))
    socket.close(linger=LINGER_MS)


def raise_open_files() -> int:
    """Raise the limit of open files to its maximum, for this process and its children; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def forbid_core_dumps() -> None:
    """Have this process and its children leave no core dumps, which contain all that is in their memory.

    The kernel ignores a limit of 0 where core_pattern names a program; 1 forbids dumps to programs and to files. The
    hard limit stays, so an operator can allow them while the process runs (prlimit(1)), and a debugger may attach: the
    process is not made undumpable (prctl(2), PR_SET_DUMPABLE), which would give its files in /proc to root.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0 if hard == 0 else 1, hard))


def connections_most() -> int:
    """How many connections of clients the limit of open files allows, besides the process's own files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(limit - OWN_FILES, limit // 2)


def _prctl(option: int, argument: object) -> None:
    if _libc.prctl(option, argument, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
