"""The deletion of one queue, as its shard sees it, as a table of transitions (shard/serving/deleting.py makes them).

The router decides. Until it has answered, the queue stays as it is but admits no new consumer. The change that the
router publishes may arrive before its answer: the queue is then gone, and those who asked are still to be answered.
Moves of the queue are independent of this (shard/queue/residence.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.states.transitions import Staged, Symbol, Transitions
from shard.queue.consumer_cy import Consumer


class Stage(Symbol):
    """How far the deletion of a queue is."""

    KEPT = "its deletion is not asked for"
    ASKED = "the router is asked to delete it; it admits no new consumer"
    GONE = "it is not on this shard any more: it is deleted, or lives on another shard"


class DeletionEvent(Symbol):
    """The events of a queue's deletion."""

    ASK = "the router is asked to delete it"
    REFUSE = "the router does not delete it"
    REMOVE = "the shard drops it, as the topology says"


DELETION = Transitions({
    Stage.KEPT: {
        DeletionEvent.ASK: Stage.ASKED,
        DeletionEvent.REMOVE: Stage.GONE,
    },
    Stage.ASKED: {
        DeletionEvent.REFUSE: Stage.KEPT,
        DeletionEvent.REMOVE: Stage.GONE,
    },
    Stage.GONE: {},
})  # fmt: skip


class Deletion(Staged[Stage, DeletionEvent]):
    """How far the deletion of one queue is. `answers` are the callbacks for the router's answer, which get its error or
    None, and `to_cancel` the consumers that are sent Cancelled after it.
    """

    __slots__ = ("answers", "to_cancel")
    transitions = DELETION

    def __init__(self) -> None:
        self.stage = Stage.KEPT
        self.answers: list[Callable[[Any], None]] = []
        self.to_cancel: list[Consumer] = []
