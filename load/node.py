"""A private broker for a measurement or demonstration: a penstock node as a child process, and its gauges."""

from __future__ import annotations

import json
import os
import re
import selectors
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from load.target import Target
from penstock.memory.gauges import Gauges

READY = re.compile(r"^penstock ready amqp=(?P<host>\S+):(?P<port>\d+) pid=(?P<pid>\d+)$")
PLAIN = ("--set", "plain=true", "--set", "http.enabled=false")
"""Loads do without TLS and HTTP, whatever the environment says of other nodes."""
START_SECONDS = 900.0
STOP_SECONDS = 60.0
POINTER_FILE = "running.json"
"""A file in the data directory of a running node that says where its gauges are."""


class NotStarted(RuntimeError):
    """The node did not start; the text ends with its log."""


class FlowState(NamedTuple):
    """A queue as the gauges show it, in messages. `depth` is ready plus unacked, the number compared with the marks;
    `epoch` counts the stops and resumes of its producers.
    """

    depth: int
    saturated: bool
    epoch: int
    stop_count: int
    resume_count: int


class LocalNode:
    """Runs `penstock serve` on a free port of 127.0.0.1 within a `with` block. Data and log are in `directory`.

    `options` are further options of the command, such as `--shards`, `2`; `environment` are variables beside those of
    this process.
    """

    def __init__(self, directory: Path, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self.data = directory / "data"
        self._options = options
        self._environment = {**os.environ, **(environment or {})}
        self.log_file = directory / "broker.log"
        self._slots: dict[str, int] = {}

    def __enter__(self) -> Self:
        """Start the node and wait until it is ready. NotStarted if it fails to start."""
        command = [
            sys.executable,
            "-m",
            "ops",
            "serve",
            "--port",
            "0",
            "--data",
            str(self.data),
            *PLAIN,
            *self._options,
        ]
        self.log_file.parent.mkdir(exist_ok=True)
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=self._environment
            )
        try:
            self.target = self._wait_ready()
            self._gauges = Gauges.open(gauges_file(self.data), writable=False)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._gauges.close()
        self._stop()

    @property
    def pid(self) -> int:
        """The supervisor's process id."""
        return self._process.pid

    def flow_state(self, queue: str) -> FlowState | None:
        """Return the present state of a queue (of any vhost); None while none has that name."""
        slot = self._slots.get(queue)
        found = None if slot is None else self._gauges.queue_read(slot)
        if found is None or found.name != queue:
            self._slots = {
                gauge.name: at for at in self._gauges.queue_slots() if (gauge := self._gauges.queue_read(at))
            }
            if queue not in self._slots:
                return None
            found = self._gauges.queue_read(self._slots[queue])
        if found is None:
            return None
        marks = found.marks
        return FlowState(
            found.ready + found.unacked, found.saturated, found.flow_epoch, marks.stop_count, marks.resume_count
        )

    def _wait_ready(self) -> Target:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            line = self._process.stdout.readline().decode() if selector.select(START_SECONDS) else ""
        ready = READY.match(line.strip())
        if ready is None:
            raise NotStarted(f"the broker did not start: {self.log_file.read_text(errors='replace').strip()[-2000:]}")
        return Target(ready["host"], int(ready["port"]))

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:  # its children end with it
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def gauges_file(data: Path) -> Path:
    """Return the path of the gauges of the node that runs on a data directory. OSError or ValueError if none does."""
    return Path(json.loads((data / POINTER_FILE).read_text())["gauges"])
