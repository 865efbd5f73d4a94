"""The unconfirmed publishes of one channel, each with a caller that waits for it or has given up waiting.

    sent ──ack, nack, channel closed──▶ settled
      └──(not in time)──▶ overdue ──ack, nack, channel closed──▶ settled

Confirm tags count from 1 on each channel (RabbitMQ extension "publisher confirms").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Destination(NamedTuple):
    """Where a message is published to."""

    exchange: str
    routing_key: str

    def __str__(self) -> str:
        return f"exchange {self.exchange!r}, routing key {self.routing_key!r}"


@dataclass(slots=True, eq=False)
class Publish:
    """One message. `taken`: whether the broker took it, None until it is settled; `error`: its basic.return, or the
    error for which the channel was closed. Once it is `overdue` nobody waits for it, and `held_by` is the broker's
    reason for the hold, as far as it is known.
    """

    destination: Destination
    begun_at: float
    taken: bool | None = None
    error: Exception | None = None
    overdue: bool = False
    held_by: str = ""


class Unsettled:
    """The publishes of a channel that are not settled, by confirm tag."""

    def __init__(self) -> None:
        self._publishes: dict[int, Publish] = {}
        self._tag = 0

    def __len__(self) -> int:
        return len(self._publishes)

    def add(self, publish: Publish) -> None:
        """Add the publish that was sent last."""
        self._tag += 1
        self._publishes[self._tag] = publish

    def overdue(self) -> list[Publish]:
        """The publishes for which nobody waits any longer."""
        return [publish for publish in self._publishes.values() if publish.overdue]

    def settle(self, tag: int, multiple: bool, taken: bool) -> None:
        """Handle basic.ack (`taken`) or basic.nack of a tag; with `multiple` of all up to the tag."""
        tags = [each for each in self._publishes if each <= tag] if multiple else [tag]
        for each in tags:
            publish = self._publishes.pop(each, None)
            if publish is not None:
                publish.taken = taken

    def returned(self, exchange: str, routing_key: str, error: Exception) -> None:
        """Handle basic.return; the ack follows."""
        for publish in self._publishes.values():
            if publish.destination == (exchange, routing_key) and publish.error is None:
                publish.error = error
                return

    def fail(self, error: Exception) -> None:
        """Handle the end of the channel."""
        for publish in self._publishes.values():
            publish.taken, publish.error = False, error
        self._publishes.clear()
