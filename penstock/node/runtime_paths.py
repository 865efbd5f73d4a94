"""The paths in a node's runtime directory: its sockets, and the files that its processes share."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Role = Literal["supervisor", "router", "shard", "acceptor", "console", "balancer", "relay"]
UNNEEDED: tuple[Role, ...] = ("console", "balancer", "relay")
"""The roles without which clients are served."""


class RuntimePaths:
    """The paths in the directory `runtime`, for a class that has it."""

    __slots__ = ()
    runtime: Path

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
        """Unix socket of an incarnation of an acceptor, a shard or the process of relays: questions of the node's user
        (`penstock.control`).
        """
        return self.runtime / f"{role}-{index}.{incarnation}.c"

    @property
    def http_socket(self) -> Path:
        """Unix socket of the HTTP interface, for the node's user (`console.http.operator`)."""
        return self.runtime / "http"

    @property
    def known_passwords(self) -> Path:
        """File shared by the acceptors: passwords verified before."""
        return self.runtime / "passwords"

    @property
    def shared_counts(self) -> Path:
        """File shared by acceptors and router: numbers of objects that have limits."""
        return self.runtime / "counts"

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
