"""The process that runs a node's relays: the settings, questions and signals around them. Clients are served without
it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import zmq

from ops.relay.node_relay import NodeRelay
from penstock.control.audit import Administrator, Audit, outcome_of
from penstock.control.control import Refusal
from penstock.control.control_server import ControlServer
from penstock.control.questions import Question, answer
from penstock.memory.gauges import Gauges
from penstock.node import collector, logs
from penstock.node.failures import end_on_failure
from penstock.node.node import Node
from penstock.process import process
from penstock.process.pulse import Pulse
from penstock.settings.relays import RelaySettings

CONFIRM_SECONDS: Final = 0.5
"""How long confirms of published messages are awaited when the node stops."""
CLOSE_SECONDS: Final = 0.3
"""How long brokers may take after that to answer connection.close."""

log = logs.get_logger()


class Relays:
    """The relays of a node, by name."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._relays: dict[str, NodeRelay] = {}
        self._leaving: set[NodeRelay] = set()
        self._gone = asyncio.Event()

    def apply(self, configured: Mapping[str, RelaySettings]) -> None:
        """Start, change and end relays so that they are the configured ones. A relay begins while one of its name
        ends.
        """
        for name in self._relays.keys() - configured.keys():
            self._leave(self._relays.pop(name))
            log.info("relay ends", relay=name)
        for name, settings in configured.items():
            relay = self._relays.get(name)
            if relay is None:
                self._relays[name] = relay = NodeRelay(name, settings, self._node, self._left)
                log.info("relay begins", relay=name)
                relay.start()
            elif relay.settings != settings:
                log.info("relay changes", relay=name)
                relay.change(settings)

    def questions(self) -> dict[str, Question]:
        """The questions of operators."""
        return {"relays": (self._facts, {}), "relay_restart": (self._restart, {"name": str})}

    async def end(self) -> None:
        """End all relays: nothing more is published, and confirms are awaited for a while."""
        for relay in self._relays.values():
            self._leave(relay)
        await self._wait(CONFIRM_SECONDS)
        for relay in list(self._leaving):
            relay.leave()
        await self._wait(CLOSE_SECONDS)

    def _leave(self, relay: NodeRelay) -> None:
        self._leaving.add(relay)
        relay.leave()

    def _left(self, relay: NodeRelay) -> None:
        self._leaving.discard(relay)
        if not self._leaving:
            self._gone.set()

    async def _wait(self, seconds: float) -> None:
        """Wait until no relay is on its way out, no longer than so many seconds."""
        self._gone.clear()
        if self._leaving:
            await asyncio.wait([asyncio.ensure_future(self._gone.wait())], timeout=seconds)

    def _facts(self) -> list[dict[str, Any]]:
        return [relay.facts() for _, relay in sorted(self._relays.items())]

    def _restart(self, name: str) -> None:
        relay = self._relays.get(name)
        if relay is None:
            raise Refusal("not_found", f"there is no relay '{name}'")
        relay.restart()


class Process:
    """One incarnation of the process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, node: Node, index: int, incarnation: int) -> None:
        self.relays = Relays(node)
        self._node = node
        self._questions = self.relays.questions()
        self._audit = Audit(node.settings.data, "relay", index)
        self._place = index, incarnation
        self.pulse = Pulse(Gauges.open(node.gauges), "relay", index, incarnation)
        self._control = ControlServer(
            node.control_of("relay", index, incarnation), self._on_question, self._audit_command
        )  # fmt: skip
        process.on_reload(loop, self.reload)

    async def start(self) -> None:
        """Answer questions, and start the relays."""
        await self._control.start()
        self.reload()
        with zmq.Context() as context:
            process.report_ready(context, self._node, "relay", *self._place)

    def reload(self) -> None:
        """Read the node file, and follow its settings."""
        logs.read_level(self._node.runtime)
        self.relays.apply(Node.load(self._node.runtime).settings.relays)

    async def close(self) -> None:
        """End the relays, then answer no more."""
        await self.relays.end()
        await self._control.close()

    def _on_question(self, name: str, arguments: dict[str, Any], answered: Callable[[dict[str, Any]], None]) -> None:
        answered(answer(self._questions, name, arguments))

    def _audit_command(
        self, who: Administrator, command: str, arguments: dict[str, Any], answered: dict[str, Any]
    ) -> None:
        """Write the audit record of a command, but not of a question that changes nothing."""
        if command != "relays":
            self._audit.record(who, command, arguments, outcome_of(answered))


async def serve(runtime: Path, index: int, incarnation: int) -> None:
    """Run the process until it is asked to stop."""
    loop = asyncio.get_running_loop()
    node, stop = process.begin(runtime, "relay", index)
    end_on_failure(loop)
    logging.getLogger("pika").setLevel(logging.CRITICAL)  # what it says of lost connections, relays say in a line
    running = Process(loop, node, index, incarnation)
    await running.start()
    collector.collect_and_keep()
    running.pulse.start(loop)
    log.info("relays started", pid=os.getpid(), incarnation=incarnation)
    await stop.wait()
    await running.close()


def main(runtime: Path, index: int, incarnation: int) -> None:
    """Run the process of relays."""
    process.enter(runtime, "relay", index)
    asyncio.run(serve(runtime, index, incarnation))
