"""Where a queue stands on its shard while queues move between shards (docs/rebalancing.md), as a table of transitions.

In every residence but OPEN the queue is *frozen*: nothing of it is delivered, expires or is dropped. A queue whose move
is rolled back is at its home without having left, and a later incarnation of a shard may find its queue homing at once.
A queue that is gone keeps the residence that it had. How far its copy is: shard/moving/copy_stage.py.

Whether the queue is to be deleted (shard/queue/deletion.py) is independent by nature: clients may ask for its deletion,
and the router may refuse it, at any stage of a move. The recovery of a later incarnation is no residence either: it
concerns all queues of the shard at once (`ShardState.recovery`).
"""

from __future__ import annotations

from penstock.states.transitions import Symbol, Transitions


class Residence(Symbol):
    """Where a queue stands on its shard."""

    OPEN = "it lives here, and serves"
    LEAVING = "this is its old home, which sends its messages to the new one"
    ARRIVING = "this may become its home: its copy is read, and nobody can see it yet"
    HOMING = "the router has decided that it lives here; its home does not know all unacked messages yet"


class Step(Symbol):
    """A step of a queue's move, as its shard makes it."""

    LEAVE = "the router begins to move it away, or again, if the end of an earlier move went unseen"
    ARRIVE = "its copy is about to be read"
    COME_HOME = "the router has decided that it lives here"
    REATTACH = "acceptors have reported their unacked messages, or are not waited for any longer"


RESIDENCE = Transitions({
    Residence.OPEN: {
        Step.LEAVE: Residence.LEAVING,
        Step.ARRIVE: Residence.ARRIVING,
        Step.COME_HOME: Residence.HOMING,
    },
    Residence.LEAVING: {
        Step.LEAVE: Residence.LEAVING,
        Step.COME_HOME: Residence.HOMING,
    },
    Residence.ARRIVING: {
        Step.COME_HOME: Residence.HOMING,
    },
    Residence.HOMING: {
        Step.REATTACH: Residence.OPEN,
    },
})  # fmt: skip

OPEN = Residence.OPEN
"""For comparisons of each queue in each turn: a global name is found sooner than a member of an enum."""
