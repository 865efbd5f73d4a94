"""How many of everything a vhost and a user may have, as every process knows it: a part of the topology.

RabbitMQ's limits, by its names, and further ones of the same kind. -1 is no limit, 0 is none of it. What a command has
set for a vhost or a user goes before the node's default (`limits.*`). What is there when a limit is lowered stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Literal, NamedTuple

from penstock.settings.limits import LimitSettings
from router.model.records import Change

Scope = Literal["vhost", "user"]


class Counted(StrEnum):
    """What there may be so many of; the value is the limit's name."""

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
    """Who has a limit."""

    scope: Scope
    name: str

    def __str__(self) -> str:
        return f"{self.scope} '{self.name}'"


class ResourceLimits:
    """One copy of what commands have set."""

    def __init__(self) -> None:
        self._of: dict[Holder, dict[str, int]] = {}
        self.kinds: dict[str, Callable[..., None]] = {"limits": self._limits}

    def reset(self) -> None:
        self._of.clear()

    def _limits(self, scope: Scope, name: str, limits: Mapping[str, int]) -> None:
        holder = Holder(scope, name)
        if limits:
            self._of[holder] = dict(limits)
        else:
            self._of.pop(holder, None)

    def changes(self) -> Iterator[Change]:
        """A snapshot: changes that make all this from nothing."""
        return (["limits", *holder, limits] for holder, limits in self._of.items())

    def of(self, holder: Holder) -> Mapping[str, int]:
        """What a command has set; nothing if none has."""
        return self._of.get(holder, {})

    def all(self) -> Mapping[Holder, Mapping[str, int]]:
        return self._of

    def limit(self, holder: Holder, counted: Counted, defaults: LimitSettings) -> int | None:
        """How many a vhost or a user may have; None is no limit."""
        number = self.of(holder).get(counted)
        if number is None:
            number = default(defaults, holder.scope, counted)
        return None if number < 0 else number


def default(settings: LimitSettings, scope: Scope, counted: Counted) -> int:
    """That of the node for each vhost or user, -1 if there is none."""
    found: int = getattr(settings, f"{scope}_{counted.name.lower()}")
    return found
