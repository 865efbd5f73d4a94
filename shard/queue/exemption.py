"""Why a queue with marks does not hold producers as its marks say."""

from __future__ import annotations


class Exemption:
    """The exemptions of one queue; they come and go independently.

    The queue is `lagging`: it is saturated, and publishes to several queues go on without its room. `fed` says why it
    receives more than its marks let in, None if it does not: a binding on the way to it grants it nothing
    (router/model/grants.py). It `yields` while it lets a deadlock go on: it stops no producer until it is down to its
    resume marks.
    """

    __slots__ = ("fed", "lagging", "yields")

    def __init__(self) -> None:
        self.lagging = False
        self.fed: str | None = None
        self.yields = False
