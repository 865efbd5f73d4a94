"""The life of a link to a shard, at an acceptor or at another shard, as a table.

A new incarnation of the shard is sent a hello and nothing else. Its first report says which turns its predecessors made
safe; only then does it get the others.
"""

from __future__ import annotations

from penstock.states.transitions import Symbol, Transitions


class LinkStage(Symbol):
    """The stage of a link's life."""

    ABSENT = "there is no such shard"
    DOWN = "the incarnation is dead, the next one is awaited"
    GREETING = "a new incarnation is to be sent the hello"
    AWAITING = "the hello was sent, the first report is due"
    UP = "turns go to the shard"


class LinkEvent(Symbol):
    """An event in the life of a link."""

    STARTED = "a new incarnation has started"
    HELLO_SENT = "the hello is sent"
    REPORTED = "the first report arrives: turns that are not safe are resent"
    DIED = "the incarnation has died"
    REMOVED = "the shard was removed from the node, with no queue on it"


LINK = Transitions({
    LinkStage.ABSENT: {
        LinkEvent.STARTED: LinkStage.GREETING,
        LinkEvent.DIED: LinkStage.ABSENT,
        LinkEvent.REMOVED: LinkStage.ABSENT,
    },
    LinkStage.DOWN: {
        LinkEvent.STARTED: LinkStage.GREETING,
        LinkEvent.DIED: LinkStage.DOWN,
        LinkEvent.REMOVED: LinkStage.ABSENT,
    },
    LinkStage.GREETING: {
        LinkEvent.STARTED: LinkStage.GREETING,
        LinkEvent.HELLO_SENT: LinkStage.AWAITING,
        LinkEvent.DIED: LinkStage.DOWN,
        LinkEvent.REMOVED: LinkStage.ABSENT,
    },
    LinkStage.AWAITING: {
        LinkEvent.STARTED: LinkStage.GREETING,
        LinkEvent.REPORTED: LinkStage.UP,
        LinkEvent.DIED: LinkStage.DOWN,
        LinkEvent.REMOVED: LinkStage.ABSENT,
    },
    LinkStage.UP: {
        LinkEvent.STARTED: LinkStage.GREETING,
        LinkEvent.DIED: LinkStage.DOWN,
        LinkEvent.REMOVED: LinkStage.ABSENT,
    },
})  # fmt: skip

UP = LinkStage.UP
"""For comparisons in each turn: a global name is found sooner than a member of an enum."""
