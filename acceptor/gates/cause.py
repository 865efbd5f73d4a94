"""A gate's description of a hold: one form for logs, notices, events, accounts, incidents, telemetry and operators."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from penstock.telemetry.schema import Cause

Kind = Literal["queue", "limit", "rate", "shard", "vhost", "stop", "rebalance", "routing"]
"""A queue, a limit over several queues, a limit of a rate, a shard, a vhost over its guarantee, an operator's stop, a
queue that moves; `routing` never holds.
"""

NO_NUMBERS: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(("count", "bytes", "stop_count", "resume_count", "stop_bytes", "resume_bytes"), 0)
)
"""The numbers of an event of something that is no queue."""
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Depth(NamedTuple):
    """The depth of a gate against the mark that is the cause; None for a gate without one."""

    depth: int | None = None
    size: int | None = None
    mark: int | None = None


class HoldCause(NamedTuple):
    """The cause of holds at a gate, with its numbers at the moment of its making.

    `text` is for clients and operators, `subject` names the gate in the same words whatever the numbers. `vhost`,
    `queue` and `queue_id` are those of a single queue ("" and 0 otherwise), `sort` is "queue" or the sort of a limit,
    and `name` the object that a limit is on. `column` is the cause in telemetry, with the `depth` that it is about;
    `flow_epoch` is the number of the queue's last stop or resume. `numbers` are those that events have, `facts` further
    ones for operators (`acceptor.questions`).
    """

    kind: Kind
    text: str
    subject: str
    column: Cause
    vhost: str = ""
    queue: str = ""
    queue_id: int = 0
    shard: int | None = None
    sort: str = ""
    name: str = ""
    depth: Depth = Depth()
    flow_epoch: int | None = None
    numbers: Mapping[str, int] = NO_NUMBERS
    facts: Mapping[str, Any] = NOTHING
