"""A running node as its processes see it: settings, identity, and the paths of its sockets and shared files.

The supervisor writes `node.json` into the runtime directory (mode 0700) before it starts a child; each child loads it
from there, and reloads it when the supervisor reports changed settings.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.batch.consumer_ids import MOST_SHARDS
from penstock.node.runtime_paths import Role, RuntimePaths
from penstock.node.wire_format import WIRE_FORMAT

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["NODE_FILE", "Node", "Role", "node_name", "places_of"]

NODE_FILE = "node.json"


@dataclass(frozen=True, slots=True)
class Node(RuntimePaths):
    """The facts of one node, the same in every process of it.

    `epoch` is the boot time of the node in microseconds since 1970; `host` and `port` are where its first listener
    serves, the plain one if it is on (the port is the real one, never 0); `settings` has every default filled in, so
    `acceptors` and `shards` are numbers.
    `clock_ahead_us` is how far the node's clock is ahead of the time since the machine booted (`penstock.node.clock`).
    `known_shards` are the shards at the node's start if commands have changed them, else empty. `identity` lasts as
    long as the node's data directory; all its stores carry it. `listeners` are the further ones, by name, with the host
    and the port that each serves on; `http` is the same for the ports of the HTTP interface: "api" and "metrics".
    """

    epoch: int
    runtime: Path
    gauges: Path
    host: str
    port: int
    settings: Settings
    clock_ahead_us: int
    known_shards: tuple[int, ...] = ()
    identity: int = 0
    listeners: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    http: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def acceptors(self) -> int:
        """The number of acceptors."""
        return self.settings.acceptors

    @property
    def shards(self) -> tuple[int, ...]:
        """The shards at the node's start."""
        return self.known_shards or tuple(range(self.settings.shards))

    @property
    def shard_places(self) -> int:
        """The maximum number of shards while the node runs: their indexes are below it."""
        return places_of(self.shards, self.settings.spare_shards)

    @property
    def scheme(self) -> str:
        """The scheme of URLs of its first listener."""
        first = None if self.settings.plain else next(iter(self.settings.listeners.values()))
        return "amqps" if first is not None and first.is_tls else "amqp"

    @property
    def local(self) -> tuple[str, int] | None:
        """Where it serves clients of its own machine without TLS; None if nowhere."""
        if self.settings.plain:
            return self.host, self.port
        return next((self.listeners[name] for name, each in self.settings.listeners.items() if each.is_local), None)

    @property
    def telemetry_name(self) -> str:
        """Its name in telemetry, by default the machine's and eight digits of `identity`: nodes of one machine, and
        machines of the same name, differ.
        """
        if self.settings.telemetry.node or not self.identity:
            return self.settings.telemetry.node or machine_name()
        return f"{machine_name()[:55]}-{self.identity % 2**32:08x}"

    @property
    def telemetry_names(self) -> frozenset[str]:
        """The names of its telemetry files. In the node's own directory the machine's name alone is one: earlier
        releases wrote that.
        """
        owns_directory = self.settings.telemetry.directory is None
        return frozenset({self.telemetry_name, *((machine_name(),) if owns_directory else ())})

    @property
    def counting(self) -> int:
        """How many processes count in `shared_counts`: each acceptor, by its index, and last the router."""
        return self.acceptors + 1

    def store(self) -> None:
        """Write the node file. OSError if the runtime directory cannot be written."""
        facts = {
            "wire_format": WIRE_FORMAT,
            "epoch": self.epoch,
            "gauges": str(self.gauges),
            "host": self.host,
            "port": self.port,
            "settings": self.settings.model_dump(mode="json"),
            "clock_ahead_us": self.clock_ahead_us,
            "known_shards": self.known_shards,
            "identity": self.identity,
            "listeners": self.listeners,
            "http": self.http,
            "local": self.local,
        }
        unfinished = self.runtime / f"{NODE_FILE}.new"
        unfinished.write_text(json.dumps(facts))
        unfinished.replace(self.runtime / NODE_FILE)

    @classmethod
    def load(cls, runtime: Path) -> Node:
        """Read the node file of a runtime directory. OSError or ValueError if there is none that can be read."""
        from penstock.settings import Settings  # not at the top: see penstock.settings

        facts = json.loads((runtime / NODE_FILE).read_text())
        return cls(
            epoch=facts["epoch"],
            runtime=runtime,
            gauges=Path(facts["gauges"]),
            host=facts["host"],
            port=facts["port"],
            settings=Settings.from_resolved(facts["settings"]),
            clock_ahead_us=facts["clock_ahead_us"],
            known_shards=tuple(facts["known_shards"]),
            identity=facts["identity"],
            listeners={name: (host, port) for name, (host, port) in facts["listeners"].items()},
            http={name: (host, port) for name, (host, port) in facts["http"].items()},
        )


def places_of(shards: Iterable[int], spare: int) -> int:
    """The maximum number of shards of a node that starts with these and may get `spare` more."""
    return min(max(shards) + 1 + spare, MOST_SHARDS)


def machine_name() -> str:
    """Return the machine's name without characters unfit for a file name."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", socket.gethostname())[:64]


def node_name() -> str:
    """Return the node's name in the form of RabbitMQ's, as clients of its metrics and its API see it."""
    return f"penstock@{machine_name()}"
