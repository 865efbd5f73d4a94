"""Where bindings lead, counted."""

from __future__ import annotations

from router.model.records import Destination


class Tally(dict[Destination, int]):
    """Destinations, and how many bindings lead to each."""

    def add(self, destination: Destination) -> None:
        self[destination] = self.get(destination, 0) + 1

    def remove(self, destination: Destination) -> None:
        if self[destination] == 1:
            del self[destination]
        else:
            self[destination] -= 1
