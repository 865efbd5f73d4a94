"""The window of unconfirmed publishes of a channel."""

from __future__ import annotations

from load.ranges import RangeSet


class ConfirmWindow:
    """Unconfirmed delivery tags of one channel, counted from 1 from confirm.select on."""

    __slots__ = ("_next", "_outstanding")

    def __init__(self) -> None:
        self._next = 1
        self._outstanding: dict[int, None] = {}  # in publishing order: a dict removes its oldest key cheaply

    def __len__(self) -> int:
        """The number of unconfirmed publishes."""
        return len(self._outstanding)

    def publish(self) -> int:
        """Return the tag of the next publish and count it as unconfirmed."""
        tag, self._next = self._next, self._next + 1
        self._outstanding[tag] = None
        return tag

    def settle(self, tag: int, multiple: bool) -> RangeSet:
        """Remove and return the tags that a basic.ack or basic.nack settles: `tag`, or with `multiple` all tags up to
        `tag`, where 0 means all.

        Tags that are not outstanding are left out, so a broker that confirms twice is not counted twice.
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
