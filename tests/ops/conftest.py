"""Nodes as fixtures, of stand-ins or in memory: they leave nothing behind, whatever a test does to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ops.claim import Pointer, claimed
from penstock.node.node import Node
from penstock.settings import Settings
from tests.ops.commanded import Commanded
from tests.ops.stand_in import COMMAND
from tests.waiting import PATIENCE, wait_for

ROOT = Path(__file__).resolve().parents[2]


def heeds_signals() -> None:
    """Heed Ctrl-C as in a terminal: background processes of a shell ignore it, and their children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class StandInNode:
    """The real supervisor over stand-in children, in a process of its own; `behaviour` is {role: how it behaves}."""

    def __init__(self, directory: Path, settings: Settings, behaviour: dict[str, str]) -> None:
        self.data = settings.data
        self.runtimes = directory / "run"
        self.runtimes.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [*COMMAND, "serve", settings.model_dump_json()],
            cwd=ROOT,
            env={**os.environ, "STAND_IN": json.dumps(behaviour), "XDG_RUNTIME_DIR": str(self.runtimes)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heeds_signals,
        )

    def wait_ready(self) -> str:
        """Return the line that reports the node as ready."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, self.finish()[2]
        return line

    @property
    def pointer(self) -> Pointer:
        """The pointer in the node's data directory."""
        pointer = Pointer.load(self.data)
        assert pointer
        return pointer

    @property
    def node(self) -> Node:
        """The node, as its processes see it."""
        return Node.load(self.pointer.runtime)

    def children(self) -> dict[str, psutil.Process]:
        """Return the running children by their name in `ps`, except the template, whose name they have at first."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            try:
                if child.status() != psutil.STATUS_ZOMBIE:
                    found[child.name()] = child
            except psutil.Error:
                continue
        return {name: child for name, child in found.items() if name.startswith("pstk-") and name != "pstk-template"}

    def wait_children(self, count: int) -> dict[str, psutil.Process]:
        """Wait for `count` running children that have taken their names; return them."""

        def named() -> dict[str, psutil.Process]:
            found = self.children()
            return found if len(found) == count else {}

        return wait_for(named, what=f"{count} children")

    def finish(self) -> tuple[int, str, str]:
        """Wait for the node to end; return exit status, standard output and standard error."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err

    def stop(self) -> tuple[int, str, str]:
        """Terminate the node and wait for it to end."""
        self.process.terminate()
        return self.finish()


StartNode = Callable[..., StandInNode]


@pytest.fixture
def start_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartNode]:
    """A function that starts a node of stand-ins, by `behaviour` of roles and settings, on the same data each time."""
    directory = tmp_path_factory.mktemp("n")
    started: list[StandInNode] = []

    def start(behaviour: dict[str, str] | None = None, **settings: object) -> StandInNode:
        chosen = {"port": 0, "data": directory / "data", "acceptors": 2, "shards": 2, "log_level": "debug"}
        chosen |= {"telemetry": {"enabled": False}, "http": {"enabled": False}, **settings}
        started.append(StandInNode(directory, Settings.from_resolved(chosen), behaviour or {}))
        return started[-1]

    yield start
    for node in started:
        if node.process.poll() is None:
            node.stop()
        for stream in (node.process.stdout, node.process.stderr):
            if stream:
                stream.close()
    with claimed(directory / "data"):
        pass  # claiming removes the files that a killed supervisor has left


@pytest.fixture
def commanded() -> Iterator[Commanded]:
    """An in-memory node with one acceptor and one shard that takes commands."""
    with Commanded() as node:
        yield node
