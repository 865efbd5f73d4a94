"""The terms on which a channel is held at a gate: the means, and the ladder that says for how long.

They are the queue's, or those of the policy that limits several queues together; a policy for the user precedes them.
Any other gate (of a shard, a vhost over its guarantee, an operator's stop) holds by all means and for ever, unless the
user's policy says other means.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.limits.ladder import FOREVER, Ladder, ladder_of
from penstock.limits.means import ALL, AUTO, Means, means_of
from router.model.policies import policy_for
from router.model.policy_keys import USER, spelled_out
from router.model.topology import Topology


class Terms(NamedTuple):
    means: Means = ALL
    ladder: Ladder = Ladder()


STANDARD = Terms()


def terms_of(throttle: str, hold: str) -> Terms:
    """Parse the texts of `throttle` and `hold`, which have been checked."""
    return STANDARD if (throttle, hold) == (AUTO, FOREVER) else Terms(means_of(throttle), ladder_of(hold))


class UserTerms:
    """The terms of policies for users, cached until the topology changes."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.known: dict[tuple[str, str], tuple[Means | None, Ladder | None]] = {}

    def clear(self) -> None:
        """Forget cached terms."""
        self.known.clear()

    def at(self, vhost: str, user: str, of_gate: Terms | None) -> Terms:
        """The terms on which such a user's channels are held at a gate with terms of its own, or with none."""
        own = self.known.get((vhost, user))
        if own is None:
            own = self.known[vhost, user] = self.look_up(vhost, user)
        if of_gate is None:
            return Terms(own[0] or ALL)
        means, ladder = of_gate
        return Terms(own[0] or means, ladder if own[1] is None else own[1])

    def look_up(self, vhost: str, user: str) -> tuple[Means | None, Ladder | None]:
        """Return means and ladder by the policy for a user; None for each that it does not say."""
        policy = policy_for(self.topology, vhost, USER, user)
        said = {} if policy is None else spelled_out(policy.definition)
        throttle, hold = said.get("throttle"), said.get("hold")
        return means_of(throttle) if throttle else None, ladder_of(hold) if hold else None
