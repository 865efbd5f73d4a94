"""A running node as its processes see it: settings, identity, and the paths of its sockets and shared files.

The supervisor writes `node.json` into the runtime directory (mode 0700) before it starts a child; each child loads it
from there, and reloads it when the supervisor reports changed settings.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock.batch.consumer_ids import MOST_SHARDS
from penstock.settings import Settings

Role = Literal["supervisor", "router", "shard", "acceptor", "console"]

NODE_FILE = "node.json"


@dataclass(frozen=True, slots=True)
class Node:
    """The facts of one node, the same in every process of it.

    `epoch` is the boot time of the node in microseconds since 1970; `host` and `port` are where AMQP is served (the
    port is the real one, never 0); `settings` has every default filled in, so `acceptors` and `shards` are numbers.
    `clock_ahead_us` is how far the node's clock is ahead of the time since the machine booted (`penstock.node.clock`).
    `known_shards` are the shards at the node's start if commands have changed them, else empty. `identity` lasts as
    long as the node's data directory; all its stores carry it.
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
        return min(max(self.shards) + 1 + self.settings.spare_shards, MOST_SHARDS)

    @property
    def router_requests(self) -> str:
        """ROUTER socket of the router: requests and their replies."""
        return f"ipc://{self.runtime}/router.requests"

    @property
    def router_changes(self) -> str:
        """PUB socket of the router: changes of the topology."""
        return f"ipc://{self.runtime}/router.changes"

    @property
    def control(self) -> Path:
        """Unix socket of the router: commands of the node's user (`penstock.control.control`)."""
        return self.runtime / "control"

    def control_of(self, role: Role, index: int, incarnation: int) -> Path:
        """Unix socket of an incarnation of an acceptor or a shard: questions of the node's
        user (`penstock.control`).
        """
        return self.runtime / f"{role}-{index}.{incarnation}.c"

    @property
    def known_passwords(self) -> Path:
        """File shared by the acceptors: passwords verified before."""
        return self.runtime / "passwords"

    @property
    def shared_counts(self) -> Path:
        """File shared by acceptors and router: numbers of objects that have limits."""
        return self.runtime / "counts"

    @property
    def counting(self) -> int:
        """How many processes count in `shared_counts`: each acceptor, by its index, and last the router."""
        return self.acceptors + 1

    @property
    def shared_hands(self) -> Path:
        """File shared by the shards: users who have used up most of their limit of unacked messages."""
        return self.runtime / "hands"

    @property
    def shared_rates(self) -> Path:
        """File shared by the acceptors: recent use of each limited rate."""
        return self.runtime / "rates"

    @property
    def process_events(self) -> str:
        """PUB socket of the supervisor: processes that started or died."""
        return f"ipc://{self.runtime}/supervisor.events"

    @property
    def process_reports(self) -> str:
        """PULL socket of the supervisor: children report that they are ready."""
        return f"ipc://{self.runtime}/supervisor.reports"

    def shard(self, index: int, incarnation: int) -> Path:
        """Socket for turns of one incarnation of a shard: turns for a dead one never reach the next."""
        return self.runtime / f"shard-{index}.{incarnation}"

    def store(self) -> None:
        """Write the node file. OSError if the runtime directory cannot be written."""
        facts = {
            "epoch": self.epoch,
            "gauges": str(self.gauges),
            "host": self.host,
            "port": self.port,
            "settings": self.settings.model_dump(mode="json"),
            "clock_ahead_us": self.clock_ahead_us,
            "known_shards": self.known_shards,
            "identity": self.identity,
        }
        unfinished = self.runtime / f"{NODE_FILE}.new"
        unfinished.write_text(json.dumps(facts))
        unfinished.replace(self.runtime / NODE_FILE)

    @classmethod
    def load(cls, runtime: Path) -> Node:
        """Read the node file of a runtime directory. OSError or ValueError if there is none that can be read."""
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
        )
