"""The supervisor's succession: the supervisor of the installed release takes the place of the running one.

Theory of operation. The process executes the program that it was started with once more (execve(2)), which is the
installed release's by now. A process that does this keeps its pid, its children, whose parent does not die, its locks,
its listening sockets and all other descriptors that it lets the new program inherit, and the signals that it has
blocked, with those that wait. The rest is in files of the runtime directory: the node file, and the estate, which says
which descriptor is which, and which process is in which place. So nothing of the node notices, but for its connections
to the two sockets of the supervisor: they connect again.

A trial comes first: while the template of the installed release loads, its supervisor is started beside the running
one, reads the files, and ends. If it fails, nothing has happened.

Invariant: the program is executed only while no process is about to report or to be removed, and with signals blocked
until the new one handles them: all that is under way is in the estate, or waits to be read.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple, NoReturn, Self

from ops.child import Child
from ops.forkserver import Forked, Template
from ops.notify import Notifier
from ops.signals import HANDLED
from ops.successor import RUNTIME, TRIAL
from penstock.node.node import Role
from penstock.programs import environment

ESTATE_FILE = "estate.json"
TRIAL_LOG = "trial.log"
FORMAT = 1
"""The format of the estate: a release refuses another one, in its trial."""


@dataclass(frozen=True, slots=True)
class Held:
    """The open files of a supervisor that its node needs: locks of the data directory, ports of AMQP in the order of
    the listeners, ports of HTTP by name, and the HTTP socket for commands, if there is one.
    """

    locks: tuple[int, ...]
    ports: tuple[socket.socket, ...]
    http: Mapping[str, socket.socket]
    operator: tuple[socket.socket, ...]

    @property
    def for_acceptors(self) -> list[int]:
        """The descriptors that acceptors inherit."""
        return [port.fileno() for port in self.ports]

    @property
    def for_console(self) -> list[int]:
        """The descriptors that the console inherits."""
        return [each.fileno() for each in (*self.http.values(), *self.operator)]


class Occupant(NamedTuple):
    """A place and the process in it, as in `ops.child.Child`; `pid` 0 if there is none."""

    role: Role
    place: int
    incarnation: int
    vain: int
    pid: int
    started: float
    started_us: int

    @classmethod
    def of(cls, child: Child) -> Occupant:
        """Describe a place."""
        return cls(child.role, child.index, child.incarnation, child.vain, child.pid, child.started, child.started_us)

    def child(self) -> Child:
        """Return the place, with its process."""
        child = Child(self.role, self.place, self.incarnation)
        child.vain, child.started, child.started_us = self.vain, self.started, self.started_us
        if self.pid:
            child.process = Forked(self.pid)
            child.ready()
        return child


@dataclass(frozen=True, slots=True)
class Estate:
    """What a supervisor leaves to its successor beside the node file, descriptors as numbers."""

    format: int
    incarnation: int
    locks: list[int]
    ports: list[int]
    http: dict[str, int]
    operator: list[int]
    template: int
    template_pid: int
    places: list[Occupant]

    @classmethod
    def load(cls, runtime: Path) -> Self:
        """Read it. OSError or ValueError if it cannot be read, or is of another format."""
        facts = json.loads((runtime / ESTATE_FILE).read_text())
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise ValueError(f"what the running supervisor leaves is not of format {FORMAT}")
        if facts.keys() != {field.name for field in fields(cls)}:
            raise ValueError("what the running supervisor leaves is incomplete")
        return cls(**facts | {"places": [Occupant(*place) for place in facts["places"]]})

    def store(self, runtime: Path) -> None:
        """Write it. OSError if that fails."""
        (runtime / ESTATE_FILE).write_text(json.dumps(asdict(self)))

    @property
    def descriptors(self) -> list[int]:
        """All descriptors that the successor inherits."""
        return [*self.locks, *self.ports, *self.http.values(), *self.operator, self.template]


class Succession:
    """The succession of the `incarnation`th supervisor of a node."""

    def __init__(self, runtime: Path, held: Held, manager: Notifier, incarnation: int) -> None:
        self._runtime = runtime
        self._held = held
        self._manager = manager
        self._incarnation = incarnation
        self._command = [sys.executable, *sys.orig_argv[1:]]

    def try_installed(self, places: Iterable[Child], template: Template) -> subprocess.Popen[bytes]:
        """Start the trial: it ends with status 0 if the installed release's supervisor could go on. OSError if it
        cannot be started.
        """
        self._estate(places, template).store(self._runtime)
        with (self._runtime / TRIAL_LOG).open("wb") as output:
            return subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env={**environment(os.environ), RUNTIME: str(self._runtime), TRIAL: "1"},
            )  # fmt: skip

    def reason(self) -> str:
        """Return the last words of a trial that has failed; "" if it left none."""
        try:
            lines = (self._runtime / TRIAL_LOG).read_text(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def execute(self, places: Iterable[Child], template: Template) -> NoReturn:
        """Execute the program in this process. OSError if that fails: this one goes on."""
        estate = self._estate(places, template)
        estate.store(self._runtime)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            _inherit_only(estate.descriptors)
            variables = {**environment(os.environ), **self._manager.variables, RUNTIME: str(self._runtime)}
            os.execve(self._command[0], self._command, variables)  # noqa: S606  no shell is wanted
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _estate(self, places: Iterable[Child], template: Template) -> Estate:
        held = self._held
        return Estate(
            FORMAT,
            self._incarnation,
            list(held.locks),
            held.for_acceptors,
            {name: each.fileno() for name, each in held.http.items()},
            [each.fileno() for each in held.operator],
            template.fileno,
            template.pid,
            [Occupant.of(child) for child in places],
        )


def _inherit_only(descriptors: Iterable[int]) -> None:
    """Have a program that is executed inherit standard streams and these, and no other descriptor."""
    kept = {0, 1, 2, *descriptors}
    for name in os.listdir("/proc/self/fd"):
        try:
            os.set_inheritable(int(name), int(name) in kept)
        except OSError:  # the one that read the directory
            continue
