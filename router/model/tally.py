"""A count of bindings by destination."""

from __future__ import annotations

from router.model.records import Destination


class Tally(dict[Destination, int]):
    """The destinations of some bindings, with the number of bindings to each."""

    def add(self, destination: Destination) -> None:
        """Count one more binding to a destination."""
        self[destination] = self.get(destination, 0) + 1

    def remove(self, destination: Destination) -> None:
        """Count one binding less; forget a destination without any."""
        if self[destination] == 1:
            del self[destination]
        else:
            self[destination] -= 1
