"""Requests to the acceptors and shards of a running node, each over a socket of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ops.administration.node import gauges_of
from ops.claim import Pointer, is_claimed
from ops.errors import CommandError
from ops.naming import data_directory
from ops.running import Running
from penstock.control import control
from penstock.memory.gauges import READY, Gauges
from penstock.node.runtime_paths import Role

Facts = dict[str, Any]


class Processes:
    """The processes of a running node. CommandError if none runs on the data directory."""

    def __init__(self, data: Path | None) -> None:
        self._data = data_directory(data)
        self.gauges: Gauges = gauges_of(data)
        pointer = Pointer.load(self._data)
        if pointer is None:
            raise CommandError("the node has stopped")
        self.node = Running.load(pointer.runtime)

    def check_running(self) -> None:
        """Raise CommandError if the node has stopped since: its gauges stay as they were then."""
        if not is_claimed(self._data):
            raise CommandError(f"the node on {self._data} has stopped")

    def ask(self, role: Role, index: int, question: str, **arguments: Any) -> Any:
        """Return the answer of one process. CommandError if it does not answer or refuses."""
        try:
            return self._call(role, index, question, arguments)
        except control.Refusal as refusal:
            raise CommandError(f"{role} {index}: {refusal}") from None

    def command(self, command: str, /, **arguments: Any) -> Any:
        """Have an acceptor carry out a command (`acceptor.commands`) or answer for the node; return its answer.
        CommandError if none serves, or if it refuses.
        """
        serving = [
            index
            for index in range(self.gauges.acceptors)
            if self.gauges.process_read("acceptor", index).state == READY
        ]
        if not serving:
            raise CommandError("no acceptor serves; try again")
        try:
            return self._call("acceptor", serving[0], command, arguments)
        except control.Refusal as refusal:
            raise CommandError(str(refusal)) from None

    def _call(self, role: Role, index: int, question: str, arguments: Facts) -> Any:
        incarnation = self.gauges.process_read(role, index).incarnation
        try:
            return control.call(self.node.control_of(role, index, incarnation), question, arguments)
        except (OSError, ValueError) as error:
            raise CommandError(f"{role} {index} does not answer: {error}; try again") from None

    def ask_acceptors(self, question: str) -> list[Facts]:
        """Return the lists of all acceptors, joined."""
        return [each for index in range(self.gauges.acceptors) for each in self.ask("acceptor", index, question)]


def selected(found: Iterable[Facts], **wanted: str | None) -> list[Facts]:
    """Return the facts that have all wanted values; None is any."""
    return [each for each in found if all(value in (None, each[name]) for name, value in wanted.items())]
