"""Whether a client that is asked to stop by Channel.Flow does stop: what it publishes after its flow-ok tells.

What it had sent before it heard is no offence. A client that answers may have a publish or two overtaken by its answer
where several of its threads publish; one that never answers is judged by how much comes, or for how long, and only
while its socket is read as it comes: what was read late may have been sent early.
"""

from __future__ import annotations

# Publishes that may follow a flow-ok.
AFTER_ANSWER_COUNT = 16
# What may come from a client that has not answered: seconds, and octets of contents (all that sockets may hold).
UNANSWERED_SECONDS = 10.0
UNANSWERED_OCTETS = 16 * 1024 * 1024


class Obedience:
    """What one channel was told by Channel.Flow, what it answered, and what came since. Times are seconds."""

    __slots__ = ("count", "due", "octets", "since")

    def __init__(self) -> None:
        self.due = 0
        self.since = 0.0
        self.count = 0
        self.octets = 0

    def told(self, now: float) -> None:
        """Channel.Flow is sent."""
        self.due += 1
        self.since = now
        self.count = self.octets = 0

    def answered(self) -> None:
        """A flow-ok came. Answers come in the order of what was asked."""
        self.due = max(self.due - 1, 0)
        self.count = 0

    def breached(self, count: int, octets: int, now: float, read_since: float | None) -> bool:
        """Publishes came while the channel is told to stop; whether it can only have ignored that. Its socket has been
        read as it comes since `read_since`, or is not read.
        """
        self.count += count
        self.octets += octets
        if not self.due:
            return self.count > AFTER_ANSWER_COUNT
        if self.octets > UNANSWERED_OCTETS:
            return True
        return read_since is not None and now - max(self.since, read_since) > UNANSWERED_SECONDS
