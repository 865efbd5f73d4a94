"""The source of the supervisor's processes: a template that has imported all they need (`ops.template`).

    gone ──start──▶ starting ──(its first message)──▶ ready ──(it dies)──▶ gone

Its death harms no running process, but none can be started without it.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from ops.backoff import LONGEST_DELAY, Backoff
from ops.template import First
from penstock.bus import pack, unpack
from penstock.node.node import Role
from penstock.programs import environment

COMMAND = (sys.executable, "-m", "ops.template")
ANSWER_SECONDS = 10.0
ANSWER_MAX = 64


class Forked:
    """A process that the template has forked, a child of this one. Its pid is not reused before `poll` reaps it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """Return the exit status (negative: the signal), once, after the process has ended; None before."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def wait(self) -> None:
        """Wait for the end of the process, which `poll` has not reported."""
        os.waitpid(self.pid, 0)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)


class ForkServer:
    """The template of a node, as its supervisor sees it.

    `due` is when the next template is to start, in monotonic seconds; None while one runs. `deaths` counts those that
    have died. `fileno` is readable once the template has sent its first message, or has ended.
    """

    def __init__(
        self,
        command: Sequence[str],
        runtime: Path,
        listeners: Mapping[Role, Sequence[int]],
        first: First | None = None,
    ) -> None:
        """`listeners` are the descriptors of the listening sockets that processes of a role inherit. `first` is the
        template to start with, if it has been forked; others are started by the command.
        """
        self._command = command
        self._listeners = listeners
        self._runtime = runtime
        self._first = first
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._started = 0.0
        self._backoff = Backoff()
        self.ready = False
        self.due: float | None = 0.0
        self.deaths = 0
        self.fileno = -1

    def start(self, now: float) -> None:
        """Start a template. OSError if it cannot be run."""
        self._started, self.due = now, now + LONGEST_DELAY
        if self._first is not None:
            pid, self._socket = self._first
            self._process, self._first = Forked(pid), None
            with suppress(BrokenPipeError):  # it has died: `reap` reports that
                self._socket.send(os.fsencode(self._runtime))
        else:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = self._run(theirs)
        self.fileno = self._socket.fileno()
        self.due = None

    def _run(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self._command, str(self._runtime), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,  # standard output belongs to the line that says the node is ready
            process_group=0,
            pass_fds=(theirs.fileno(),),
            env=environment(os.environ),
        )

    def read_first_message(self) -> None:
        """Receive the template's first message, its pid. A late answer or the end of the stream is none."""
        assert self._process is not None
        try:
            word = self._socket.recv(ANSWER_MAX)
        except ConnectionResetError:
            word = b""
        self.ready = word == pack(self._process.pid)

    def fork(self, role: Role, index: int, incarnation: int) -> Forked:
        """Fork a process of a role. OSError if that fails; a template that does not answer is killed."""
        self._socket.settimeout(ANSWER_SECONDS)
        try:
            inherited = self._listeners.get(role, ())
            socket.send_fds(self._socket, [pack([role, index, incarnation])], inherited)
            answer = self._socket.recv(ANSWER_MAX)
        except OSError:
            self._give_up()
            raise
        if not answer:
            self._give_up()
            raise OSError(errno.ESRCH, "the template has gone")
        pid = unpack(answer)
        if isinstance(pid, list):
            raise OSError(pid[0], os.strerror(pid[0]))
        return Forked(pid)

    def reap(self, known: frozenset[int], now: float) -> int | None:
        """Return the template's exit status, once, after it has ended; None before. A child whose pid it did not report
        is killed then: `known` are the pids of all other children.
        """
        status = None if self._process is None else self._process.poll()
        if status is not None:
            self._process, self.ready = None, False
            self._socket.close()
            self.deaths += 1
            self.due = now + self._backoff.after(now - self._started)
            for child in psutil.Process().children():
                if child.pid not in known:
                    child.kill()
                    os.waitpid(child.pid, 0)
        return status

    def close(self) -> None:
        """Kill the template, if one runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._socket.close()

    def _give_up(self) -> None:
        self.ready = False
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
