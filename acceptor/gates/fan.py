"""The flow set of a route: those queues of a fan-out that may hold its publishes.

A queue with an inherited limit that lags leaves the set while others keep up: publishes pass it as if it had no marks,
and are kept for it on disk (shard/queue/queue_state.py). Producers are held once the lagging queues are as large a
share as the policy of an exchange on the way says (`flow-share`; all, if none does), or one of them never leaves: an
essential queue, or where no policy says a share, one that was chosen to hold its producers, by its declaration or a
policy of its own. Unprivileged queues (router/authority/strangers.py, router/model/grants.py) are not in the set: they
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
    from acceptor.gates.inlet import Inlet

ALL = 100
NOBODY: frozenset[Inlet] = frozenset()

log = get_logger()


class Fan:
    """The flow set of one route. `share` of the queues, in percent, must lag to hold producers; those that `stay` never
    leave. `tell` is called for a queue that is left behind.
    """

    __slots__ = ("inlets", "share", "stay", "tell")

    def __init__(
        self, inlets: Iterable[Inlet], stay: Iterable[Inlet], share: int, tell: Callable[[Inlet], None]
    ) -> None:
        self.inlets = tuple(inlets)
        self.tell = tell
        for inlet in self.inlets:
            inlet.fanned = True
        self.stay = frozenset(stay)
        self.share = share

    def leavers(self) -> frozenset[Inlet]:
        """Return the lagging queues that hold no producer. One that newly leaves is marked, announced and logged."""
        lagging = [inlet for inlet in self.inlets if inlet.is_saturated()]
        if not lagging or 100 * len(lagging) >= self.share * sum(not inlet.stands_aside() for inlet in self.inlets):
            return NOBODY
        left = frozenset(lagging) - self.stay
        for inlet in left:
            if not inlet.left:
                inlet.left = True
                self.tell(inlet)
                log.info("queue left behind", reason=str(inlet))
        return left

    def holders(self) -> list[Inlet]:
        """Return the queues that hold their producers at present."""
        left = self.leavers()
        return [inlet for inlet in self.inlets if inlet.is_saturated() and inlet not in left]


def fan_of(
    inlets: Iterable[Inlet], topology: Topology, vhost: str, exchanges: Iterable[str], tell: Callable[[Inlet], None]
) -> Fan | None:
    """Return the flow set of queues with marks, reached by way of `exchanges`; None where none of them may leave."""
    inlets = tuple(inlets)
    if len(inlets) < 2:
        return None
    share = _share(topology, vhost, exchanges)
    if share == 0:
        return None
    stay = [inlet for inlet in inlets if _stays(topology.queue_by_id(inlet.id), chosen=share is None)]
    if len(stay) == len(inlets):
        return None
    return Fan(inlets, stay, ALL if share is None else share, tell)


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
