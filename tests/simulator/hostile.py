"""The clients that send what no client library sends."""

from __future__ import annotations

from tests.frames import Event
from tests.hostile_methods import methods
from tests.simulator.person import Person, Phase

MOST_METHODS = 20


class Hostile(Person):
    """Sends well-formed frames with anything inside, and connects again whenever the broker has had enough. What it
    declares is deleted at the end of the play.
    """

    is_hostile = True

    def handle(self, event: Event) -> None:
        """Note what comes; answer nothing but the end of the connection."""
        self.note(event)
        if event.name == "channel.open-ok" and self.phase is Phase.ARRIVING:
            self.phase = Phase.ACTING
        elif event.name == "connection.close":
            self.client.send("connection.close-ok")
        self.later()

    def act(self) -> None:
        """Send some methods, or leave."""
        if self.chance.random() < 0.05:
            self.leave()
        else:
            self.client.write(methods(self.chance, self.chance.randint(1, MOST_METHODS)))

    def falls_silent(self) -> None:
        """Leave."""
        super().falls_silent()
        self.leave()
