"""The numbers of connections, queues, … that a vhost and a user may have: a part of the topology of every process.

They are RabbitMQ's limits, by its names, and further ones of the same kind. -1 is no limit, 0 allows none. A limit that
a command has set for a vhost or a user overrides the node's default (`limits.*`). Lowering a limit removes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Literal, NamedTuple

from penstock.settings.limits import LimitSettings
from router.model.records import Change

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


class ResourceLimits:
    """The limits that commands have set, in one replica."""

    def __init__(self) -> None:
        self._of: dict[Holder, dict[str, int]] = {}
        self.kinds: dict[str, Callable[..., None]] = {"limits": self._limits}

    def reset(self) -> None:
        """Forget all limits, before another snapshot."""
        self._of.clear()

    def _limits(self, scope: Scope, name: str, limits: Mapping[str, int]) -> None:
        holder = Holder(scope, name)
        if limits:
            self._of[holder] = dict(limits)
        else:
            self._of.pop(holder, None)

    def changes(self) -> Iterator[Change]:
        """Return a snapshot: the changes that set these limits."""
        return (["limits", *holder, limits] for holder, limits in self._of.items())

    def of(self, holder: Holder) -> Mapping[str, int]:
        """Return the limits that commands have set for a vhost or a user, by name."""
        return self._of.get(holder, {})

    def all(self) -> Mapping[Holder, Mapping[str, int]]:
        return self._of

    def limit(self, holder: Holder, counted: Counted, defaults: LimitSettings) -> int | None:
        """Return the number that a vhost or a user may have; None is no limit."""
        number = self.of(holder).get(counted)
        if number is None:
            number = default(defaults, holder.scope, counted)
        return None if number < 0 else number


def default(settings: LimitSettings, scope: Scope, counted: Counted) -> int:
    """Return the node's default for each vhost or user; -1 is no limit."""
    found: int = getattr(settings, f"{scope}_{counted.name.lower()}")
    return found
