"""Where a queue stands on its shard while queues move between shards (docs/rebalancing.md), as a table of transitions.

In every residence but OPEN the queue is *frozen*: nothing of it is delivered, expires or is dropped. A queue whose move
is rolled back is at its home without having left, and a later incarnation of a shard may find its queue homing at once.
A queue that is gone keeps the residence that it had.

Whether the queue is to be deleted (shard/queue/deletion.py) is independent by nature: clients may ask for its deletion,
and the router may refuse it, at any stage of a move. The recovery of a later incarnation is no residence either: it
concerns all queues of the shard at once (`ShardState.recovery`).
"""

from __future__ import annotations

from enum import Enum


class Residence(Enum):
    """Where a queue stands on its shard."""

    OPEN = "open"
    """It lives here, and serves."""
    LEAVING = "leaving"
    """This is its old home, which sends its messages to the new one."""
    ARRIVING = "arriving"
    """This may become its home: its copy is read, and nobody can see it yet."""
    HOMING = "homing"
    """The router has decided that it lives here; its home does not know all unacked messages yet."""

    def after(self, step: Step) -> Residence:
        """Return the residence after a step. KeyError if the step does not follow."""
        return TRANSITIONS[self, step]


OPEN = Residence.OPEN
"""For what is asked of each queue in each turn: a global name is found sooner than a member."""


class Step(Enum):
    """A step of a queue's move, as its shard makes it."""

    LEAVE = "leave"
    """The router begins to move it away."""
    ARRIVE = "arrive"
    """Its copy is about to be read."""
    COME_HOME = "come home"
    """The router has decided that it lives here."""
    REATTACH = "re-attach"
    """Acceptors have reported their unacked messages, or are not waited for any longer."""


TRANSITIONS: dict[tuple[Residence, Step], Residence] = {
    (Residence.OPEN, Step.LEAVE): Residence.LEAVING,
    (Residence.LEAVING, Step.LEAVE): Residence.LEAVING,  # the end of an earlier move went unseen
    (Residence.LEAVING, Step.COME_HOME): Residence.HOMING,
    (Residence.OPEN, Step.ARRIVE): Residence.ARRIVING,
    (Residence.ARRIVING, Step.COME_HOME): Residence.HOMING,
    (Residence.OPEN, Step.COME_HOME): Residence.HOMING,
    (Residence.HOMING, Step.REATTACH): Residence.OPEN,
}
"""The residence after each step; a step that is not in the table is a programming error."""
