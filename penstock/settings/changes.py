"""What a configuration that was read again says otherwise than the node runs with, and which of that can change now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.settings import Settings
from penstock.settings.sources import Configuration

LIVE = frozenset({"log_level"})
"""Settings that change while the node runs; the others count from its next start on."""


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that has another value; `origin` is where the new one comes from, "by default" if nowhere."""

    key: str
    running: Any
    configured: Any
    origin: str

    @property
    def is_live(self) -> bool:
        return self.key in LIVE


def changes(running: Configuration, configured: Configuration) -> list[Change]:
    """Settings that either of them gives and that differ. What is given by neither comes from the machine."""
    before = running.settings.model_dump(mode="json")
    after = configured.settings.model_dump(mode="json")
    keys = sorted({*running.origins, *configured.origins})
    found = (
        Change(key, _value(before, key), _value(after, key), configured.origins.get(key, "by default")) for key in keys
    )
    return [change for change in found if change.running != change.configured]


def with_live(running: Settings, configured: Settings) -> Settings:
    """The settings that run, with those of the configuration that can change now."""
    return running.model_copy(update={key: getattr(configured, key) for key in LIVE})


def _value(tree: Any, key: str) -> Any:
    for part in key.split("."):
        tree = tree[part]
    return tree
