"""The source of the supervisor's processes: a template that has imported all they need (`ops.template`).

    gone ──start──▶ starting ──(its greeting)──▶ ready ──(it dies)──▶ gone

Its death harms no running process, but none can be started without it.

While the node is upgraded there are two: the one of the installed release, and the one before, to go back to
(`ops.upgrade`).
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
from ops.template import First, Greeting
from penstock import __version__
from penstock.bus import pack, unpack
from penstock.node.logs import get_logger
from penstock.node.node import Role
from penstock.node.wire_format import WIRE_FORMAT
from penstock.programs import environment

COMMAND = (sys.executable, "-m", "ops.template")
ANSWER_SECONDS = 10.0
ANSWER_MAX = 256

log = get_logger()


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


class Template:
    """A template that runs, from `started` on (monotonic seconds), and the supervisor's end of the socket to it.

    `greeting` is its first message; None before. `fileno` is readable once it has sent that, or has ended.
    """

    def __init__(self, process: subprocess.Popen[bytes] | Forked, ours: socket.socket, started: float) -> None:
        self.started = started
        self.greeting: Greeting | None = None
        self._process = process
        self._socket = ours

    @property
    def pid(self) -> int:
        """Its pid."""
        return self._process.pid

    @property
    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._socket.fileno()

    def read_greeting(self) -> None:
        """Receive the greeting. A late answer or the end of the stream is none."""
        try:
            greeting = Greeting.read(self._socket.recv(ANSWER_MAX))
        except (ConnectionResetError, ValueError, TypeError):
            greeting = None
        self.greeting = greeting if greeting is not None and greeting.pid == self.pid else None

    def fork(self, request: tuple[Role, int, int], inherited: Sequence[int]) -> Forked:
        """Fork a process with its role, index and incarnation. OSError if that fails; a template that does not answer
        is killed.
        """
        self._socket.settimeout(ANSWER_SECONDS)
        try:
            socket.send_fds(self._socket, [pack(request)], inherited)
            answer = self._socket.recv(ANSWER_MAX)
        except OSError:
            self.give_up()
            raise
        if not answer:
            self.give_up()
            raise OSError(errno.ESRCH, "the template has gone")
        pid = unpack(answer)
        if isinstance(pid, list):
            raise OSError(pid[0], os.strerror(pid[0]))
        return Forked(pid)

    def give_up(self) -> None:
        """Kill it: its end will be found."""
        self.greeting = None
        self._process.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Return its exit status, once, after it has ended; None before."""
        status = self._process.poll()
        if status is not None:
            self._socket.close()
        return status

    def end(self) -> None:
        """Kill it, and wait for its end."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._socket.close()


class ForkServer:
    """The templates of a node, as its supervisor sees them: the present one, from which processes are forked, and
    while the node is upgraded the next one until it is ready, and the former one until the upgrade is over.

    `due` is when the present template is to start, in monotonic seconds; None while it runs. `deaths` counts those that
    have died.
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
        self.present: Template | None = None
        self._backoff = Backoff()
        self.next: Template | None = None
        self.former: Template | None = None
        self.due: float | None = 0.0
        self.deaths = 0

    @property
    def ready(self) -> bool:
        """Whether processes can be forked."""
        return self.present is not None and self.present.greeting is not None

    @property
    def templates(self) -> list[Template]:
        """All templates that run."""
        return [each for each in (self.present, self.next, self.former) if each is not None]

    @property
    def awaited(self) -> set[int]:
        """The descriptors that become readable with a greeting, or the end of a template."""
        return {each.fileno for each in self.templates}

    def start(self, now: float) -> None:
        """Start the present template. OSError if it cannot be run."""
        self.due = now + LONGEST_DELAY
        if self._first is None:
            self.present = self._run(now)
        else:
            (pid, ours), self._first = self._first, None
            with suppress(BrokenPipeError):  # it has died: `reap` reports that
                ours.send(os.fsencode(self._runtime))
            self.present = Template(Forked(pid), ours, now)
        self.due = None

    def adopt(self, pid: int, descriptor: int, now: float) -> None:
        """Fork processes from a template of this release that runs, and that a supervisor before this one has used."""
        self.present = Template(Forked(pid), socket.socket(fileno=descriptor), now)
        self.present.greeting = Greeting(pid, WIRE_FORMAT, __version__)
        self.due = None

    def _run(self, now: float) -> Template:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [*self._command, str(self._runtime), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,  # standard output belongs to the line that says the node is ready
                process_group=0,
                pass_fds=(theirs.fileno(),),
                env=environment(os.environ),
            )
        return Template(process, ours, now)

    def read_greetings(self, readable: Mapping[int, int]) -> None:
        """Receive the greetings of templates whose descriptors are readable. The present one must be of a release that
        can serve beside the running one: the files of another may have been installed since.
        """
        for template in self.templates:
            if template.fileno in readable:
                template.read_greeting()
        present = self.present
        if present is not None and present.greeting is not None and present.greeting.wire_format != WIRE_FORMAT:
            log.error("the installed release cannot serve beside the running one: start the node again",
                      installed=present.greeting.version)  # fmt: skip
            present.give_up()

    def fork(self, role: Role, index: int, incarnation: int) -> Forked:
        """Fork a process of a role. OSError if that fails."""
        if self.present is None:
            raise OSError(errno.ESRCH, "the template has gone")
        return self.present.fork((role, index, incarnation), self._listeners.get(role, ()))

    def reap(self, known: frozenset[int], now: float) -> int | None:
        """Return the present template's exit status, once, after it has ended; None before. A child whose pid it did
        not report is killed then: `known` are the pids of all other processes of the node.
        """
        if self.former is not None and self.former.poll() is not None:
            self.former = None
        if self.present is None or (status := self.present.poll()) is None:
            return None
        ended, self.present = self.present, None
        self.deaths += 1
        self.due = now + self._backoff.after(now - ended.started)
        known |= {each.pid for each in self.templates}
        for child in psutil.Process().children():
            if child.pid not in known:
                child.kill()
                os.waitpid(child.pid, 0)
        return status

    # Upgrades

    def load_installed(self, now: float) -> None:
        """Start the next template, of the installed release. OSError if it cannot be run."""
        self.next = self._run(now)

    def adopt_next(self) -> None:
        """Fork processes from the next template from now on."""
        assert self.next is not None
        self.former, self.present, self.next = self.present, self.next, None
        self.due = None

    def drop_next(self) -> None:
        """End the next template: its release is not used."""
        if self.next is not None:
            self.next.end()
            self.next = None

    def drop_former(self) -> None:
        """End the former template: there is no way back."""
        if self.former is not None:
            self.former.end()
            self.former = None

    def return_to_former(self, now: float) -> None:
        """Fork processes from the former template again. If it has died, the command starts one of the installed
        release.
        """
        if self.present is not None:
            self.present.end()
        self.present, self.former = self.former, None
        if self.present is None:
            self.due = now

    def close(self) -> None:
        """Kill all templates."""
        for template in self.templates:
            template.end()
