"""Compares a configuration that was read again with the one the node runs with, and says which changes can apply at
once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.settings import Settings
from penstock.settings.sources import Configuration

LIVE = frozenset({"log_level"})
"""Settings that change while the node runs; the others take effect at its next start."""


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
        return self.key in LIVE


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
    return running.model_copy(update={key: getattr(configured, key) for key in LIVE})


def _value(tree: Any, key: str) -> Any:
    for part in key.split("."):
        tree = tree[part]
    return tree
