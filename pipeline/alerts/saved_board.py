"""The saved board: each state is a file of its own, as not every file system can replace a file at once.

The complete one with the highest number counts; those before it are removed.
"""

from __future__ import annotations

import json
import re
from typing import Final

from pipeline.files import DamagedError, Files
from pipeline.layout import name_of

NAME: Final = re.compile(r"board-(\d{9,})\.json")


class SavedBoard:
    """The states of a board that are saved in a directory, by one process at a time."""

    def __init__(self, files: Files, directory: str) -> None:
        """Find the saved states. PipelineError if the directory cannot be listed."""
        self.files, self.directory = files, directory
        self.paths: dict[int, str] = {}
        for path in files.matching(f"{directory}/board-*.json"):
            if found := NAME.fullmatch(name_of(path)):
                self.paths[int(found[1])] = path

    def read(self) -> str | None:
        """Return the latest complete state, as JSON; None if there is none."""
        for number in sorted(self.paths, reverse=True):
            try:
                text = self.files.read(self.paths[number])
                json.loads(text or "")
            except (DamagedError, ValueError):
                continue
            return text
        return None

    def write(self, state: str) -> None:
        """Save a state, as JSON. PipelineError if it cannot be written; then the one before it counts."""
        number = max(self.paths, default=0) + 1
        path = f"{self.directory}/board-{number:09}.json"
        self.files.write(path, state.encode())
        for before in self.paths.values():
            self.files.delete(before)
        self.paths = {number: path}
