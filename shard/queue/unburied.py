"""The dead of one queue that are not buried yet (shard/dead_letters/burial.py keeps the numbers)."""

from __future__ import annotations


class Unburied:
    """The remaining cost of a queue's dead.

    `count` messages, with `nbytes` of bodies and `whole` bytes, have letters that find no room at their targets: they
    go on counting in the depth of the queue. `burying` is the number of graves whose letters are not safe yet.
    """

    __slots__ = ("burying", "count", "nbytes", "whole")

    def __init__(self) -> None:
        self.count = self.nbytes = self.whole = 0
        self.burying = 0

    def block(self, count: int, nbytes: int, whole: int) -> None:
        """Set how much finds no room."""
        self.count, self.nbytes, self.whole = count, nbytes, whole
