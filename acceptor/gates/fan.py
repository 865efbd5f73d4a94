"""The flow set of a route: those queues of a fan-out that may hold its publishes.

A queue with an inherited limit that lags leaves the set while others keep up: publishes pass it as if it had no marks,
and are kept for it on disk (shard/queue/queue_state.py). Producers are held once the lagging queues are as large a
share as the policy of an exchange on the way says (`flow-share`; all, if none does), or one of them never leaves: an
essential queue, or where no policy says a share, one that was chosen to hold its producers, by its declaration or a
policy of its own. Unprivileged queues (router/authority/standing.py, router/model/grants.py) are not in the set: they
hold no producer, and no queue leaves because of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from penstock.limits.features import QueueFeatures
from penstock.node.logs import get_logger
from penstock.text.amounts import percentage
from router.model.policies import governing
from router.model.policy_keys import EXCHANGE, FLOW_SHARE
from router.model.topology import Queue, Topology

if TYPE_CHECKING:
    from acceptor.gates.queue_gate import QueueGate

ALL = 100
NOBODY: frozenset[QueueGate] = frozenset()

log = get_logger()


class Fan:
    """The flow set of one route. `share` of the queues, in percent, must lag to hold producers; those that `stay` never
    leave. `report_lagging` is called for a queue that lags.
    """

    __slots__ = ("queue_gates", "report_lagging", "share", "stay")

    def __init__(
        self, queue_gates: Iterable[QueueGate], stay: Iterable[QueueGate], share: int,
        report_lagging: Callable[[QueueGate], None],
    ) -> None:  # fmt: skip
        self.queue_gates = tuple(queue_gates)
        self.report_lagging = report_lagging
        for queue_gate in self.queue_gates:
            queue_gate.fanned = True
        self.stay = frozenset(stay)
        self.share = share

    def leavers(self) -> frozenset[QueueGate]:
        """Return the lagging queues that hold no producer. One that newly leaves is marked, announced and logged."""
        lagging = [queue_gate for queue_gate in self.queue_gates if queue_gate.is_saturated()]
        if not lagging or 100 * len(lagging) >= self.share * sum(
            not queue_gate.stands_aside() for queue_gate in self.queue_gates
        ):
            return NOBODY
        left = frozenset(lagging) - self.stay
        for queue_gate in left:
            if not queue_gate.lagging:
                queue_gate.lagging = True
                self.report_lagging(queue_gate)
                log.info("queue lags", reason=str(queue_gate))
        return left

    def holders(self) -> list[QueueGate]:
        """Return the queues that hold their producers at present."""
        left = self.leavers()
        return [queue_gate for queue_gate in self.queue_gates if queue_gate.is_saturated() and queue_gate not in left]


def fan_of(
    queue_gates: Iterable[QueueGate],
    topology: Topology,
    vhost: str,
    exchanges: Iterable[str],
    report_lagging: Callable[[QueueGate], None],
) -> Fan | None:
    """Return the flow set of queues with marks, reached by way of `exchanges`; None where none of them may leave."""
    queue_gates = tuple(queue_gates)
    if len(queue_gates) < 2:
        return None
    share = _share(topology, vhost, exchanges)
    if share == 0:
        return None
    stay = [
        queue_gate for queue_gate in queue_gates if _stays(topology.queue_by_id(queue_gate.id), chosen=share is None)
    ]
    if len(stay) == len(queue_gates):
        return None
    return Fan(queue_gates, stay, ALL if share is None else share, report_lagging)


def _stays(queue: Queue | None, chosen: bool) -> bool:
    """Whether a queue never leaves: an essential one, and if `chosen` one that was chosen to hold its producers."""
    if queue is None:
        return False
    features = QueueFeatures.from_wire(queue.features)
    return features.essential or (chosen and features.chosen)


def _share(topology: Topology, vhost: str, exchanges: Iterable[str]) -> int | None:
    """Return the share that a policy of the exchanges says, of the first that has one which does; None if none does."""
    policies = topology.policies(vhost, operator=False)
    for exchange in exchanges:
        policy = governing(policies, EXCHANGE, exchange)
        if policy is not None and FLOW_SHARE in policy.definition:
            return percentage(str(policy.definition[FLOW_SHARE])) or 0
    return None
