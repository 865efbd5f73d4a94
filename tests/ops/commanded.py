"""An in-memory node that commands reach as they reach a real one: a claimed data directory, gauges, control sockets.

The sockets are served by a thread. A test works on the node only while no command runs, so the two never meet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Self

import orjson
import typer
from typer.testing import CliRunner

from acceptor.commands import COMMANDS, carry_out
from acceptor.core import AcceptorCore
from acceptor.questions import questions as questions_of_acceptor
from ops.claim import Pointer, claimed
from ops.errors import CommandError
from penstock.control.control import Refusal
from penstock.control.control_server import ControlServer
from penstock.control.questions import Question, answer
from penstock.node.node import Node as Facts
from shard.questions import questions as questions_of_shard
from tests.simulator.joined.node import Node
from tests.waiting import PATIENCE

Answered = Callable[[dict[str, Any]], None]


class Commanded:
    """A joined node with control sockets of its router and its first acceptors and shards.

    The supervisor's command, the restart of the acceptors, is carried out at once.
    """

    def __init__(self, **options: Any) -> None:
        """`options` are those of `tests.simulator.joined.node.Node`."""
        self.node = Node(**options)
        self.data = self.node.settings.data
        self.facts = Facts(
            1, self.data / "run", self.data / "gauges", "127.0.0.1", 5672, self.node.settings, clock_ahead_us=0
        )

    def __enter__(self) -> Self:
        with ExitStack() as exits:
            exits.enter_context(self.node)
            exits.enter_context(claimed(self.data))
            self.facts.runtime.mkdir()
            self.facts.store()
            Pointer(1, self.facts.runtime, self.facts.gauges).store(self.data)
            self.node.show_processes()
            exits.enter_context(serving(self._servers()))
            self._exits = exits.pop_all()
        return self

    def _servers(self) -> list[ControlServer]:
        servers = [ControlServer(self.facts.control, self._command)]
        for index, acceptor in self.node.running_acceptors():
            path = self.facts.control_of("acceptor", index, acceptor.incarnation)
            servers.append(ControlServer(path, partial(self._ask_acceptor, acceptor.core)))
        for index, shard in self.node.running_shards():
            path = self.facts.control_of("shard", index, shard.incarnation)
            asked = questions_of_shard(shard.core)
            servers.append(ControlServer(path, partial(self._answer, asked)))
        return servers

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def run(self, app: typer.Typer, *words: str, input: str | None = None) -> str:
        """Return the output of a command of `app`. AssertionError if it fails."""
        done = CliRunner().invoke(app, [*words, "--data", str(self.data)], input=input)
        if done.exception is not None:
            raise AssertionError(f"{words}: {done.exception!r}") from done.exception
        return str(done.stdout)

    def json(self, app: typer.Typer, *words: str) -> Any:
        """Return the JSON that a command prints."""
        return orjson.loads(self.run(app, *words, "--json"))

    def rows(self, app: typer.Typer, *words: str) -> list[list[str]]:
        """Return the cells of the tables that a command prints, without the header rows."""
        lines = self.run(app, *words).splitlines()
        return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]

    def refusal(self, app: typer.Typer, *words: str, input: str | None = None) -> str:
        """Return the reason why a command is refused. AssertionError if it is carried out."""
        done = CliRunner().invoke(app, [*words, "--data", str(self.data)], input=input)
        assert isinstance(done.exception, CommandError), (words, done.exception, done.output)
        return str(done.exception)

    def _command(self, command: str, arguments: dict[str, Any], answered: Answered) -> None:
        try:
            answered({"result": self._result(command, arguments)})
        except Refusal as refusal:
            answered({"error": str(refusal), "kind": refusal.kind})

    def _result(self, command: str, arguments: dict[str, Any]) -> Any:
        if command == "acceptors_restart":
            for index in range(len(self.node.acceptors)):
                self.node.kill_acceptor(index)
                self.node.start_acceptor(index)
            return self.node.show_processes()
        if command == "queue_move":
            outcomes = self.node.move(arguments["name"], arguments["shard"])
            self.node.settle()
            return outcomes[0]
        if command == "queue_move_abort":
            return self.node.abort_move(arguments["name"])
        return self.node.command(command, **arguments)

    def _ask_acceptor(self, core: AcceptorCore, name: str, arguments: dict[str, Any], answered: Answered) -> None:
        if name in COMMANDS:
            carry_out(core, name, arguments, answered)
            self.node.settle()
        else:
            self._answer(questions_of_acceptor(core), name, arguments, answered)

    def _answer(self, asked: dict[str, Question], question: str, arguments: dict[str, Any], answered: Answered) -> None:
        answered(answer(asked, question, arguments))


@contextmanager
def serving(servers: list[ControlServer]) -> Iterator[None]:
    """Serve control sockets, each from a thread's loop, for the context."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="control sockets")
    thread.start()
    try:
        for server in servers:
            asyncio.run_coroutine_threadsafe(server.start(), loop).result(PATIENCE)
        yield
    finally:
        for server in servers:
            asyncio.run_coroutine_threadsafe(server.close(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def answering(path: Path, answers: dict[str, Any]) -> ControlServer:
    """Return a server that gives each command its answer, whatever the arguments."""
    return ControlServer(path, lambda command, arguments, answered: answered({"result": answers[command]}))
