"""The topology that users publish to and consume from: queues, and an exchange if several queues get copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from load.options import LoadOptions
from load.session import Session

Destination = Literal["queue", "subscribers", "requests", "tasks"]


@dataclass(frozen=True, slots=True)
class Topology:
    """Queues that each get a copy of every message; `exchange` is "" for a single queue, reached by its name."""

    queues: tuple[str, ...]
    exchange: str = ""

    @property
    def routing_key(self) -> str:
        """The routing key to publish with."""
        return "" if self.exchange else self.queues[0]

    @property
    def name(self) -> str:
        """The name used in tables."""
        return self.exchange or self.queues[0]

    def declare(self, session: Session, arguments: Mapping[str, int]) -> None:
        """Declare exchange, queues and bindings, whether they exist or not. `arguments` are those of the queues."""
        for queue in self.queues:
            session.channel.queue_declare(queue, durable=True, arguments=dict(arguments))
        if self.exchange:
            session.channel.exchange_declare(self.exchange, "fanout", durable=True)
            for queue in self.queues:
                session.channel.queue_bind(queue, self.exchange)

    def purge(self, session: Session) -> None:
        """Purge the queues."""
        for queue in self.queues:
            session.channel.queue_purge(queue)

    def delete(self, session: Session) -> None:
        """Delete exchange and queues."""
        if self.exchange:
            session.channel.exchange_delete(self.exchange)
        for queue in self.queues:
            session.channel.queue_delete(queue)


def topology_of(destination: Destination, options: LoadOptions) -> Topology:
    """Return a topology named after `--queue`, so that runs with different names stay apart."""
    stem = options.queue
    if destination == "subscribers":
        return Topology(tuple(f"{stem}.subscriber.{number}" for number in range(options.subscribers)), f"{stem}.fanout")
    if destination == "queue":
        return Topology((stem,))
    return Topology((f"{stem}.{destination}",))
