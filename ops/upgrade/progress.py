"""How far the upgrade of a node has come: a file in its runtime directory, written by the supervisor."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

PROGRESS_FILE = "upgrade.json"


class Stage(StrEnum):
    """The stages of an upgrade; `succeeding` is the supervisor's own."""

    LOADING = "loading"
    REPLACING = "replacing"
    SUCCEEDING = "succeeding"
    DONE = "done"
    FAILED = "failed"


class Progress(NamedTuple):
    """The stage of the upgrade with that `number`, counted from 1; the installed `version`, "" until it is known; and
    the reason of a failure.
    """

    number: int
    stage: Stage
    version: str = ""
    reason: str = ""

    def store(self, runtime: Path) -> None:
        """Write it in one step. OSError if that fails."""
        unfinished = runtime / f"{PROGRESS_FILE}.new"
        unfinished.write_text(json.dumps(self._asdict()))
        unfinished.replace(runtime / PROGRESS_FILE)

    @property
    def is_over(self) -> bool:
        """Whether nothing is to come any more."""
        return self.stage in (Stage.DONE, Stage.FAILED)

    @classmethod
    def load(cls, runtime: Path) -> Progress | None:
        """Read it; None if the node was never upgraded. OSError or ValueError if it cannot be read."""
        try:
            facts = json.loads((runtime / PROGRESS_FILE).read_text())
        except FileNotFoundError:
            return None
        return cls(facts["number"], Stage(facts["stage"]), facts["version"], facts["reason"])
