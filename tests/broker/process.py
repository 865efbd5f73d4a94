"""A broker started as a user starts it: a process tree of its own, stopped and checked at the end."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import psutil

from ops.administration.processes import Processes
from ops.claim import Pointer
from penstock.control import control
from penstock.limits.watermarks import Marks
from penstock.memory.gauges import Gauges, QueueGauge
from penstock.node.node import Node
from tests.raw import Address, Client, HungUp
from tests.waiting import wait_for

START_SECONDS = 100.0
STOP_SECONDS = 60.0
"""Several times as long as the stop takes on a machine that is busy with other tests."""
READY = re.compile(r"^penstock ready amqps?=(?P<host>\S+):(?P<port>\d+) pid=(?P<pid>\d+)$")
ROOT = Path(__file__).resolve().parents[2]
WITHOUT_HTTP = ("--set", "http.enabled=false")
"""Tests that are not about the HTTP interface leave its ports to others."""


class Broker:
    """`penstock serve` on a free port of 127.0.0.1. The directory holds its data and its log."""

    def __init__(
        self,
        directory: Path,
        *assignments: str,
        acceptors: int = 1,
        shards: int = 1,
        environment: Mapping[str, str] | None = None,
        by: Sequence[str] = (),
        options: Sequence[str] = (),
        provokes: str = "",
        program: Sequence[str] = (sys.executable, "-m", "ops"),
    ) -> None:
        """Start the broker and wait until it is ready. AssertionError if it fails. `assignments`: "key=value" settings.

        `environment`: variables for the broker's processes beside those of the test; `by`: a command to start it with;
        `options`: further options of `penstock serve`; `provokes`: the name of errors that the test provokes;
        `program`: what to run as the command `penstock`.
        """
        self.directory = directory
        self.environment = environment or {}
        self.provokes = provokes
        self.program = program
        self.log_file = directory / "broker.log"
        self.command = [
            *by,
            *(*program, "serve", "--port", "0", "--data", str(directory / "data")),
            *("--acceptors", str(acceptors), "--shards", str(shards)),
            *(() if any(each.startswith("http.") for each in assignments) else WITHOUT_HTTP),
            *options,
            *(part for assignment in assignments for part in ("--set", assignment)),
        ]
        self.start()

    def start(self) -> None:
        """Start the process; after `stop`, start it anew on the same data."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        environment = {**clean, **self.environment}
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        try:
            found = READY.match(self._first_line())
            assert found, f"not ready:\n{self.log}"
            self.address = Address(found["host"], int(found["port"]))
            self.pid = int(found["pid"])
        except BaseException:
            self.kill_all()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self.stop()
        else:
            self.kill_all()

    @property
    def log(self) -> str:
        """The output to standard error so far."""
        return self.log_file.read_text(errors="replace")

    def call(self, command: str, **arguments: Any) -> Any:
        """Run a command of the control socket and return its result. Refusal if it is refused."""
        pointer = Pointer.load(self.directory / "data")
        assert pointer
        return control.call(Node.load(pointer.runtime).control, command, arguments)

    def held(self) -> list[dict[str, Any]]:
        """Return the held channels, as reported by the acceptors."""
        return Processes(self.directory / "data").ask_acceptors("held")

    def queues(self) -> list[QueueGauge]:
        """Return the gauges of all queues; none if the node is not running."""
        try:
            pointer = Pointer.load(self.directory / "data")
            assert pointer
            with Gauges.open(Node.load(pointer.runtime).gauges, writable=False) as gauges:
                self.acceptors = gauges.acceptors
                records = (gauges.queue_read(slot) for slot in gauges.queue_slots() if slot >= gauges.shards)
                return [record for record in records if record is not None]
        except (OSError, AssertionError):
            return []

    def check_overshoot(self) -> None:
        """Raise AssertionError if a queue was ever further above its stop mark than its published bound."""
        for queue in self.queues():
            bound, _ = Marks(*queue.marks).overshoot_bound(self.acceptors, queue.reserve)
            assert queue.over_count <= bound, f"{queue.name} was {queue.over_count} above its mark, {bound} may be"

    def penstock(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run `penstock …` as a user of this node, with `given` on its standard input."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        return subprocess.run(
            [*self.program, *arguments, "--data", str(self.directory / "data")],
            cwd=ROOT,
            env={**clean, **self.environment, "COLUMNS": "200", "NO_COLOR": "1"},
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )

    def _first_line(self) -> str:
        assert self.process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            assert selector.select(START_SECONDS), f"not ready within {START_SECONDS:g} s:\n{self.log}"
        return self.process.stdout.readline().decode().rstrip("\n")

    def processes(self) -> list[psutil.Process]:
        """Return the process that was started and all its descendants."""
        try:
            root = psutil.Process(self.process.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def children(self, role: str) -> list[int]:
        """Return the pids of the running children of a role (router, shard, acceptor), in order of their index."""
        found = []
        for process in self.processes():
            try:
                if process.name().startswith(f"pstk-{role}-") and process.status() != psutil.STATUS_ZOMBIE:
                    found.append((int(process.name().rpartition("-")[2]), process.pid))
            except psutil.Error:
                continue
        return [pid for _, pid in sorted(found)]

    def connect(self) -> Client:
        """Return a connection, as soon as a process listens."""

        def connected() -> Client | None:
            try:
                return Client.connect(self.address)
            except (HungUp, OSError):
                return None

        return wait_for(connected, START_SECONDS, "a connection")

    def kill(self, role: str, index: int = 0) -> int:
        """Kill a child as soon as one runs in that place; return its pid."""
        (pid,) = wait_for(lambda: self.children(role)[index : index + 1], START_SECONDS, f"{role} {index}")
        os.kill(pid, signal.SIGKILL)
        return pid

    def wait_replaced(self, role: str, pid: int) -> None:
        """Wait until the configured number of children of the role runs again, without `pid` among them."""
        option = {"acceptor": "--acceptors", "shard": "--shards"}.get(role)
        count = int(self.command[self.command.index(option) + 1]) if option else 1
        wait_for(
            lambda: len(self.children(role)) == count and pid not in self.children(role),
            START_SECONDS,
            f"{role} {pid} replaced",
        )

    def pss(self) -> int:
        """Return the memory of all the broker's processes in bytes, each shared page counted once."""
        return sum(process.memory_full_info().pss for process in self.processes())

    def stop(self) -> None:
        """Terminate the broker. AssertionError unless it ends in order and in time, leaves nothing behind and has
        logged no traceback.

        AssertionError too if a queue was deeper than allowed.
        """
        try:
            self.check_overshoot()
        except AssertionError:
            self.kill_all()
            raise
        family = self.processes()
        self.process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill_all()
            raise AssertionError(f"not stopped after {time.monotonic() - started:.1f} s:\n{self.log}") from None
        self._close_output()
        _, left = psutil.wait_procs(family, timeout=STOP_SECONDS)
        for process in left:
            process.kill()
        assert not left, f"left after stop: {left}\n{self.log}"
        assert code == 0, f"exit {code}:\n{self.log}"
        errors = [line for line in self.log.splitlines() if "Traceback" in line]
        traces = [line for line in errors if not (self.provokes and self.provokes in line)]
        assert not traces, f"{len(traces)} errors of its own, the first: {traces[0]}"

    def kill_all(self) -> None:
        """Kill the whole process tree, if the way it ends does not matter."""
        family = self.processes()
        for process in family:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait()
        psutil.wait_procs(family, timeout=STOP_SECONDS)
        self._close_output()

    def _close_output(self) -> None:
        if self.process.stdout:
            self.process.stdout.close()
