"""Which publishes still wait for their confirm."""

from __future__ import annotations

from load.ranges import RangeSet


class ConfirmWindow:
    """Delivery tags of one channel in confirm mode, from confirm.select on (tags count from 1)."""

    __slots__ = ("_next", "_outstanding")

    def __init__(self) -> None:
        self._next = 1
        self._outstanding: dict[int, None] = {}  # in order of publishing: a dict pops its oldest cheaply

    def __len__(self) -> int:
        """How many publishes wait for their confirm."""
        return len(self._outstanding)

    def publish(self) -> int:
        """The tag of the next publish, which now waits."""
        tag, self._next = self._next, self._next + 1
        self._outstanding[tag] = None
        return tag

    def settle(self, tag: int, multiple: bool) -> RangeSet:
        """The tags that a basic.ack or basic.nack settles. With `multiple`, all up to `tag`, and 0 means all there are.

        Tags that do not wait (any more) are left out, so a broker that confirms twice is not counted twice.
        """
        settled = RangeSet()
        if not multiple:
            if tag in self._outstanding:
                del self._outstanding[tag]
                settled.add(tag, tag + 1)
            return settled
        for oldest in list(self._outstanding):
            if tag and oldest > tag:
                break
            del self._outstanding[oldest]
            settled.add(oldest, oldest + 1)
        return settled
