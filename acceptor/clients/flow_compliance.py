"""Whether a client obeys Channel.Flow: judged by its publishes after its flow-ok.

Publishes sent before the client received Channel.Flow are no offence. The answer of a client may overtake a publish or
two where several of its threads publish. A client that never answers is judged by how much it sends, or for how long,
and only while its socket is read without delay: data that is read late may have been sent early.
"""

from __future__ import annotations

# Publishes that may follow a flow-ok.
AFTER_ANSWER_COUNT = 16
# How long, and how many bytes of contents, a client may send without an answer: as many as sockets may hold.
UNANSWERED_SECONDS = 10.0
UNANSWERED_BYTES = 16 * 1024 * 1024


class FlowCompliance:
    """The Channel.Flow sent on one channel, and its publishes since. Times are seconds.

    `due` counts answers to come; `count` and `nbytes` the publishes since the last Channel.Flow or flow-ok.
    """

    __slots__ = ("count", "due", "nbytes", "since")

    def __init__(self) -> None:
        self.due = 0
        self.since = 0.0
        self.count = 0
        self.nbytes = 0

    def expect_flow_ok(self, now: float) -> None:
        """Channel.Flow was sent: expect an answer, and count publishes anew."""
        self.due += 1
        self.since = now
        self.count = self.nbytes = 0

    def answered(self) -> None:
        """A flow-ok came. Answers come in the order of the requests."""
        self.due = max(self.due - 1, 0)
        self.count = 0

    def breached(self, count: int, nbytes: int, now: float, read_since: float | None) -> bool:
        """Count publishes while the channel is stopped. Return whether its client can only have ignored the stop. Its
        socket has been read as it comes since `read_since`, or is not read.
        """
        self.count += count
        self.nbytes += nbytes
        if not self.due:
            return self.count > AFTER_ANSWER_COUNT
        if self.nbytes > UNANSWERED_BYTES:
            return True
        return read_since is not None and now - max(self.since, read_since) > UNANSWERED_SECONDS
