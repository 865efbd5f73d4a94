"""A running node as commands see it: the facts of its node file, without the model of its settings, which would take
longer to import than most answers take.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from penstock.node.node import NODE_FILE, places_of
from penstock.node.runtime_paths import RuntimePaths


@dataclass(frozen=True, slots=True)
class Running(RuntimePaths):
    """The facts of a running node, as in `penstock.node.node.Node`; `settings` are simple values, with a mapping for
    each section.
    """

    runtime: Path
    gauges: Path
    host: str
    port: int
    clock_ahead_us: int
    counting: int
    shard_places: int
    settings: Mapping[str, Any]
    listeners: Mapping[str, tuple[str, int]]
    http: Mapping[str, tuple[str, int]]
    local: tuple[str, int] | None
    wire_format: int

    @classmethod
    def load(cls, runtime: Path) -> Self:
        """Read the node file of a runtime directory. OSError or ValueError if there is none that can be read."""
        facts = json.loads((runtime / NODE_FILE).read_text())
        settings = facts["settings"]
        return cls(
            runtime,
            Path(facts["gauges"]),
            facts["host"],
            facts["port"],
            facts["clock_ahead_us"],
            settings["acceptors"] + 1,
            places_of(facts["known_shards"] or range(settings["shards"]), settings["spare_shards"]),
            settings,
            facts["listeners"],
            facts["http"],
            facts["local"],
            facts.get("wire_format", 0),  # earlier releases have none
        )
