"""A shard's answers about its queues to the node's operator.

    question    arguments          answer
    consumers   id (of a queue)    [{id, acceptor, prefetch, in_hand, full | None, active, window_open,
                                    settled_seconds | None, usual_seconds | None}]

    spans       after              as in `penstock.tracing.spans.Spans.report`

    queues                         [id of each queue that it has]

    messages    id, skip, count,   as in `shard.browsing`
                body_bytes

    deadlock    id, circle,        the queue's action in a deadlock: "report"; "credit" or "spill", which has been
                reported, early    done; or "nack", which an acceptor has to do; None if an earlier action has not
                                   reached the waiting producers yet

Gets with unacked messages (`in_hand`) are among the consumers. `full`: which limit is reached, that of its "channel"
(`amqp.unacked_bytes`) or of its "user" (`limits.user_unacked_…`); `active`: its client has not stopped deliveries with
channel.flow; `window_open`: its socket accepts more; `settled_seconds`: time since its last settlement, None if there
was none; `usual_seconds`: its usual time between settlements, None before the second. A deadlock (`circle` describes it
in words) causes an event and an incident, unless it was `reported` before and no action is taken. With `early` the only
action is a first loan, and otherwise nothing is recorded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.control.questions import Question
from penstock.limits.features import CREDIT, REPORT, SPILL
from shard.browsing import browse

if TYPE_CHECKING:
    from shard.core import ShardCore
    from shard.flow.flow import Flow
    from shard.queue.consumer_cy import Consumer
    from shard.turns.state import ShardState


def questions(core: ShardCore) -> dict[str, Question]:
    """The questions that a shard answers, by name."""
    state = core.state
    return {
        "consumers": (lambda id: consumers(state, id), {"id": int}),
        "queues": (lambda: list(state.queues), {}),
        "spans": (core.traces.spans.report, {"after": int}),
        "messages": (partial(browse, state), {"id": int, "skip": int, "count": int, "body_bytes": int}),
        "deadlock": (partial(deadlock, state, core.flow), {"id": int, "circle": str, "reported": bool, "early": bool}),
    }


def consumers(state: ShardState, id: int) -> list[dict[str, Any]]:
    """The consumers of a queue, and gets with unacked messages."""
    queue = state.queues.get(id)
    return [
        _described(state, consumer)
        for link in state.links.values()
        for consumer in link.consumers.values()
        if queue is not None and consumer.queue is queue.contents
    ]


def deadlock(state: ShardState, flow: Flow, id: int, circle: str, reported: bool, early: bool) -> str | None:
    """Act on a deadlock that a queue is part of; return the action."""
    queue = state.queues.get(id)
    if queue is None:
        return REPORT
    if queue.exemption.yields or (queue.saturation.lent is not None and not queue.saturation.over):
        return None
    action = queue.features.deadlock or flow.deadlock
    if early and (action != CREDIT or queue.saturation.lent is not None):
        return REPORT
    if action == CREDIT:
        action = CREDIT if flow.lend(queue, state.now) else REPORT
    elif action == SPILL:
        queue.exemption.yields = True
    if action != REPORT or not reported:
        flow.deadlocked(queue, circle, action, state.now)
    state.touch(queue)
    return action


def _described(state: ShardState, consumer: Consumer) -> dict[str, Any]:
    seconds = (state.now - consumer.settled_at) / 1e6 if consumer.settled_at else None
    return {
        "id": consumer.id,
        "acceptor": consumer.link.receiver,
        "prefetch": consumer.prefetch or max(consumer.group.limit, 0),
        "in_hand": consumer.outstanding.total,
        "full": _full(consumer),
        "active": consumer.active,
        "window_open": consumer.window > 0,
        "settled_seconds": None if seconds is None else round(seconds, 3),
        "usual_seconds": consumer.usual / 1e6 if consumer.usual else None,
    }


def _full(consumer: Consumer) -> str | None:
    if consumer.waits_for_user():
        return "user"
    return "channel" if consumer.has_its_hands_full() else None
