"""The numbers of connections, queues, … that a vhost and a user may have: a part of the topology of every process.

They are RabbitMQ's limits, by its names, and further ones of the same kind. -1 is no limit, 0 allows none. A limit that
a command has set for a vhost or a user overrides the node's default (`limits.*`). Lowering a limit removes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

from penstock.settings.limits import LimitSettings
from router.model.record_kind import Record, Records, of_kind

Scope = Literal["vhost", "user"]


class Counted(StrEnum):
    """The things that limits count; the value is the limit's name."""

    CONNECTIONS = "max-connections"
    CHANNELS = "max-channels"
    QUEUES = "max-queues"
    EXCHANGES = "max-exchanges"
    BINDINGS = "max-bindings"


LIMITS: dict[Scope, tuple[Counted, ...]] = {
    "vhost": (Counted.CONNECTIONS, Counted.QUEUES, Counted.EXCHANGES, Counted.BINDINGS),
    "user": (Counted.CONNECTIONS, Counted.CHANNELS, Counted.QUEUES, Counted.EXCHANGES, Counted.BINDINGS),
}


class Holder(NamedTuple):
    """The vhost or user that has a limit."""

    scope: Scope
    name: str

    def __str__(self) -> str:
        return f"{self.scope} '{self.name}'"


@of_kind("limits", "limits", key=2, packed=("limits",), void=({},))
@dataclass(frozen=True, slots=True)
class HolderLimits(Record):
    """All limits that commands have set for a vhost or a user, by name."""

    scope: Scope
    name: str
    limits: dict[str, int] = field(hash=False)


class ResourceLimits:
    """The limits that commands have set, in one replica."""

    def __init__(self, records: Records[tuple[str, str], HolderLimits]) -> None:
        self._records = records

    def of(self, holder: Holder) -> Mapping[str, int]:
        """Return the limits that commands have set for a vhost or a user, by name."""
        found = self._records.get(holder)
        return {} if found is None else found.limits

    def all(self) -> Mapping[Holder, Mapping[str, int]]:
        """Return all limits that commands have set."""
        return {Holder(each.scope, each.name): each.limits for each in self._records.values()}

    def limit(self, holder: Holder, counted: Counted, defaults: LimitSettings) -> int | None:
        """Return the number that a vhost or a user may have; None is no limit."""
        number = self.of(holder).get(counted)
        if number is None:
            number = default(defaults, holder.scope, counted)
        return None if number < 0 else number


DEFAULTS = {(scope, counted): f"{scope}_{counted.name.lower()}" for scope in LIMITS for counted in Counted}
"""The names of the settings with the node's defaults."""


def default(settings: LimitSettings, scope: Scope, counted: Counted) -> int:
    """Return the node's default for each vhost or user; -1 is no limit."""
    found: int = getattr(settings, DEFAULTS[scope, counted])
    return found
