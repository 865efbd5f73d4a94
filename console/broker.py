"""The node as its HTTP interface sees it: a replica of the topology, the gauges, and requests to the other processes.

Lists are read from the replica and from shared memory, so they cost the other processes nothing. The knowledge of one
process alone (connections, consumers, held channels) is asked over its control socket, and so is every change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from console.count_rates import CountRates
from console.foreign import ForeignArguments
from console.login_turns import LoginTurns
from console.metrics.reading import Reading
from console.metrics.scraping import Scraping
from console.processors import Processors
from console.rebalancing import Rebalancing
from console.sampler import Sampler
from penstock.control.asking import ask
from penstock.control.audit import Audit
from penstock.memory.gauges import READY, Gauges, QueueGauge
from penstock.node import clock
from penstock.node.node import Node, node_name
from penstock.node.runtime_paths import Role
from penstock.process.node_memory import NodeMemory
from router.model.topology import Topology

if TYPE_CHECKING:
    from console.certificate import ServedCertificate

Facts = dict[str, Any]
Credentials = tuple[str, str]
"""Name and password."""

REPLICA_SECONDS = 10.0
POLL_SECONDS = 0.002
REQUESTS = 16
"""Requests to other processes that are under way at once."""


@dataclass(frozen=True, slots=True)
class Login:
    """The user of a client of the HTTP interface, as an acceptor has found. `internal`: one of the node's own users.
    Others act with the `credentials` that they logged in with, as only their backend knows their rights.
    """

    user: str
    tags: tuple[str, ...]
    internal: bool
    credentials: Credentials | None = field(default=None, repr=False)


class Broker:
    """The node of this process."""

    def __init__(self, node: Node, gauges: Gauges, topology: Topology, audit: Audit) -> None:
        self.node = node
        self.name = node_name()
        self.gauges = gauges
        self.topology = topology
        self.audit = audit
        self.sampler = Sampler(gauges, time.monotonic)
        self.rates = CountRates(time.monotonic)
        self.sums: dict[str, dict[str, int]] = {}
        """The last answers of processes about their sums (`console.api.counted`), by process."""
        self.processors = Processors(time.monotonic)
        self.memory = NodeMemory(gauges)
        self.foreign = ForeignArguments(topology, self.administer)
        self.settings: Mapping[str, Any] = node.settings.model_dump(mode="json")
        self.scraping = Scraping(self.reading)
        self.rebalancing = Rebalancing(node.settings.data)
        self.certificate: ServedCertificate | None = None
        """The certificate of the HTTP interface."""
        self._turns = asyncio.Semaphore(REQUESTS)
        self._logins = LoginTurns()

    @property
    def now(self) -> float:
        """The time of the node's clock, in seconds."""
        return clock.now()

    def reading(self, vhosts: Collection[str] | None = None) -> Reading:
        """Begin a reading of the node, with the queues of chosen vhosts or (None) of all."""
        return Reading(self.gauges, self.settings, vhosts)

    def gauge(self, id: int) -> QueueGauge | None:
        """Return the gauge of a queue; None if there is none at present."""
        queue = self.topology.queue_by_id(id)
        gauge = None if queue is None else self.gauges.queue_read(queue.slot)
        return gauge if gauge is not None and gauge.queue_id == id else None

    def marks(self, id: int) -> Facts | None:
        """Return the depth of a queue against its marks, in messages; None if there is no such queue at present."""
        gauge = self.gauge(id)
        if gauge is None:
            return None
        return {
            "depth": gauge.ready + gauge.unacked,
            "stop": gauge.marks.stop_count,
            "resume": gauge.marks.resume_count,
            "saturated": gauge.saturated,
        }

    def stops(self) -> list[Facts]:
        """Return the stops by hand, as the router shows them (`router.commands.stops`)."""
        return [clock.as_wall(asdict(stop), "since", "until") for stop in self.topology.stops.values()]

    def tick(self) -> None:
        """Take samples; called once a second."""
        self.rates.tick()
        self.sampler.tick()
        if self.sampler.is_awake:
            self.processors.sample(self.reading())

    async def caught_up(self) -> None:
        """Wait until the replica has every change that anybody has been answered. TimeoutError if that takes long."""
        async with asyncio.timeout(REPLICA_SECONDS):
            while self.topology.version < self.gauges.topology_version():  # noqa: ASYNC110  the router raises it
                await asyncio.sleep(POLL_SECONDS)

    # Requests

    async def ask(self, role: Role, index: int, question: str, **arguments: Any) -> Any:
        """Return the answer of one process. Refusal if it refuses; OSError if it does not answer."""
        incarnation = self.gauges.process_read(role, index).incarnation
        async with self._turns:
            return await ask(self.node.control_of(role, index, incarnation), question, arguments)

    async def ask_acceptors(self, question: str) -> list[Facts]:
        """Return the lists of all acceptors that serve, joined."""
        answers = await asyncio.gather(*(self.ask("acceptor", index, question) for index in self.serving()))
        return [each for answer in answers for each in answer]

    async def command(self, command: str, **arguments: Any) -> Any:
        """Have an acceptor that serves carry out a command (`acceptor.commands`), or answer for the node. Refusal if it
        refuses; OSError if none answers.
        """
        serving = self.serving()
        if not serving:
            raise ConnectionRefusedError("no acceptor serves")
        return await self.ask("acceptor", serving[0], command, **arguments)

    async def administer(self, command: str, **arguments: Any) -> Any:
        """Have the router carry out a command (`router.commands`). Refusal if it refuses; OSError if it does not
        answer.
        """
        async with self._turns:
            return await ask(self.node.control, command, arguments)

    async def login(self, name: str, password: str, host: str) -> Login | None:
        """Check a user and a password, sent from a host; None if they are refused. OSError if no acceptor answers."""
        async with self._logins.of(host):
            found = await self.command("login", name=name, password=password, host=host)
        if not found["accepted"]:
            return None
        credentials = None if found["internal"] else (name, password)
        return Login(found["user"], tuple(found["tags"]), found["internal"], credentials)

    def serving(self) -> list[int]:
        """Return the acceptors that serve."""
        return [
            index
            for index in range(self.gauges.acceptors)
            if self.gauges.process_read("acceptor", index).state == READY
        ]

    async def certificates(self) -> list[Facts]:
        """Return the certificates that are served, those of listeners (`acceptor.questions`) and that of HTTP."""
        found: list[Facts] = await self.command("certificates") if self.serving() else []
        return found if self.certificate is None else [*found, self.certificate.report()]

    async def held(self) -> list[Facts]:
        """Return the held channels (`acceptor.questions`), the longest held first."""
        return sorted(await self.ask_acceptors("held"), key=lambda held: -held["held_seconds"])
