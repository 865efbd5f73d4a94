"""The stages of automatic rebalancing."""

from __future__ import annotations

from penstock.states.transitions import Symbol, Transitions


class Stage(Symbol):
    """The stage of the balancer."""

    IDLE = "does nothing: it is off or paused, it rests, or another plan is being applied"
    WATCHING = "watches the load, window by window"
    READY = "the load was uneven for long enough: a plan is due, in the next quiet hours"
    APPLYING = "makes the moves of a plan"


class Event(Symbol):
    """An event in the life of the balancer."""

    HINDERED = "it may not move anything for a while"
    FREED = "nothing hinders it any more"
    PERSISTED = "enough uneven windows, one after the other"
    SETTLED = "an even window, another placement, or no move that would help"
    KEPT = "a plan is made and kept for an operator"
    BEGUN = "a plan is being applied, its last one if that was interrupted"
    ENDED = "the plan has ended"


BALANCER: Transitions[Stage, Event] = Transitions({
    Stage.IDLE: {Event.FREED: Stage.WATCHING, Event.BEGUN: Stage.APPLYING},
    Stage.WATCHING: {Event.HINDERED: Stage.IDLE, Event.PERSISTED: Stage.READY, Event.BEGUN: Stage.APPLYING},
    Stage.READY: {
        Event.HINDERED: Stage.IDLE,
        Event.SETTLED: Stage.WATCHING,
        Event.KEPT: Stage.IDLE,
        Event.BEGUN: Stage.APPLYING,
    },
    Stage.APPLYING: {Event.ENDED: Stage.IDLE},
})  # fmt: skip
"""The transitions between stages; it begins idle."""
