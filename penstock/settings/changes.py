"""Compares a configuration that was read again with the one the node runs with, and says which changes can apply at
once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

from penstock.settings import Settings
from penstock.settings.sources import Configuration

LIVE = ("log_level", "relays", "rebalance.automatic")
"""Settings and sections that change while the node runs; the others take effect at its next start."""

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Change:
    """A setting with a changed value; `origin` is the source of the new one, "by default" if none gives it."""

    key: str
    running: Any
    configured: Any
    origin: str

    @property
    def is_live(self) -> bool:
        """Whether the change applies while the node runs."""
        return f"{self.key}.".startswith(tuple(f"{each}." for each in LIVE))


def changes(running: Configuration, configured: Configuration) -> list[Change]:
    """The settings given in either configuration whose values differ. Settings given in neither come from
    the machine.
    """
    before = running.settings.model_dump(mode="json")
    after = configured.settings.model_dump(mode="json")
    keys = sorted({*running.origins, *configured.origins})
    found = (
        Change(key, _value(before, key), _value(after, key), configured.origins.get(key, "by default")) for key in keys
    )
    return [change for change in found if change.running != change.configured]


def with_live(running: Settings, configured: Settings) -> Settings:
    """The running settings, with those of the new configuration that can change live."""
    return _with(running, configured, LIVE)


def _with(running: M, configured: M, keys: Iterable[str]) -> M:
    """The running settings of a section, with those of other ones that have these keys, dotted below the section."""
    parts: dict[str, list[str]] = {}
    for key in keys:
        name, _, rest = key.partition(".")
        parts.setdefault(name, []).extend([rest] if rest else [])
    update = {
        name: _with(getattr(running, name), getattr(configured, name), rest) if rest else getattr(configured, name)
        for name, rest in parts.items()
    }
    return running.model_copy(update=update)


def _value(tree: Any, key: str) -> Any:
    """Return the value of a setting; None if it is one of a relay that is not there."""
    for part in key.split("."):
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree
