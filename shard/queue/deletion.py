"""The deletion of one queue, as its shard sees it, as a table of transitions (shard/serving/deleting.py makes them).

The router decides. Until it has answered, the queue stays as it is but admits no new consumer. The change that the
router publishes may arrive before its answer: the queue is then gone, and those who asked are still to be answered.
Moves of the queue are independent of this (shard/queue/residence.py).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from shard.queue.consumer_cy import Consumer


class Stage(Enum):
    """How far the deletion of a queue is."""

    KEPT = "kept"
    """Nobody asks for it."""
    ASKED = "asked"
    """The router is asked to delete the queue."""
    GONE = "gone"
    """The queue is not on this shard any more: it is deleted, or lives on another shard."""

    def after(self, event: DeletionEvent) -> Stage:
        """Return the stage after an event. KeyError if the event cannot happen."""
        return TRANSITIONS[self, event]


class DeletionEvent(Enum):
    """What happens to the deletion of a queue."""

    ASK = "ask"
    """The router is asked to delete the queue."""
    REFUSE = "refuse"
    """The router does not delete it."""
    REMOVE = "remove"
    """The shard drops the queue, as the topology says."""


TRANSITIONS: dict[tuple[Stage, DeletionEvent], Stage] = {
    (Stage.KEPT, DeletionEvent.ASK): Stage.ASKED,
    (Stage.ASKED, DeletionEvent.REFUSE): Stage.KEPT,
    (Stage.KEPT, DeletionEvent.REMOVE): Stage.GONE,
    (Stage.ASKED, DeletionEvent.REMOVE): Stage.GONE,
}
"""The stage after each event; an event that is not in the table is a programming error."""


class Deletion:
    """How far the deletion of one queue is. `answers` are the callbacks for the router's answer, which get its error or
    None, and `to_cancel` the consumers that are sent Cancelled after it.
    """

    __slots__ = ("answers", "stage", "to_cancel")

    def __init__(self) -> None:
        self.stage = Stage.KEPT
        self.answers: list[Callable[[Any], None]] = []
        self.to_cancel: list[Consumer] = []

    def go_on(self, event: DeletionEvent) -> None:
        """Go on to the stage after an event. KeyError if the event cannot happen at this stage."""
        self.stage = self.stage.after(event)
