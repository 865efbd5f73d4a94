"""The order of turns at a gate: surplus round robin (Adiseshu, Parulkar and Varghese, 1996).

That is deficit round robin in which a share may use more than it is due and pays for it in its next turns, as a channel
sends whole runs. Channels that are served as one form a share: those of a connection, or by policy those of a user,
those that publish with one routing key, or each channel by itself. A share is served in proportion to its weight, which
is its user's by policy.

A line that `remembers` (acceptor/gates/rounds.py) serves in rounds: a share that has used up its round waits for the
next.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING

from router.model.policies import policy_for
from router.model.policy_keys import FAIR_BY, USER, WEIGHT
from router.model.topology import Topology

if TYPE_CHECKING:
    from acceptor.gates.gate import WaitingChannel
    from acceptor.gates.permissions import Access

BY_CONNECTION, BY_CHANNEL, BY_USER, BY_KEY = FAIR_BY
# The most turns that a share may owe: one message may be larger than all of them.
OWED_TURNS = 64
# The most rounds whose shares are saved up.
SAVED_ROUNDS = 2
# Shares beyond this number, by routing keys say, are not remembered.
MOST_REMEMBERED = 10_000


class Share:
    """Channels that are served as one: `channels` are those that wait. `surplus` is the remainder of their turns, or
    below 0 their debt, in messages or bytes; `seen` is when they published last, in seconds.
    """

    __slots__ = ("channels", "key", "seen", "surplus", "weight")

    def __init__(self, key: Hashable, weight: int) -> None:
        self.key = key
        self.weight = weight
        self.surplus = 0
        self.seen = 0.0
        self.channels: OrderedDict[WaitingChannel, None] = OrderedDict()


class FairLine(OrderedDict["WaitingChannel", None]):
    """Channels in the order in which they began to wait, and their shares in the order of their turns.

    `first` goes before all others: a transaction needs all its room at once. `weight` is that of the waiting shares.
    `remembered` are the shares whose surplus outlives their waiting, empty where the line does not remember; `quantum`
    is what a round brings at weight 1.
    """

    def __init__(self, by: str = BY_CONNECTION) -> None:
        super().__init__()
        self.by = by
        self.first: WaitingChannel | None = None
        self.weight = 0
        self._of: dict[WaitingChannel, Share] = {}
        self._shares: OrderedDict[Hashable, Share] = OrderedDict()
        self._spent: OrderedDict[Hashable, Share] = OrderedDict()
        self._serving: Share | None = None
        self.remembers = False
        self.remembered: dict[Hashable, Share] = {}
        self.quantum = 0

    def __setitem__(self, channel: WaitingChannel, value: None) -> None:
        super().__setitem__(channel, value)
        if channel in self._of:
            return
        share = self.share_of(channel)
        if not share.channels:
            self._shares[share.key] = share
            self.weight += share.weight
        share.channels[channel] = None
        self._of[channel] = share

    def pop(self, channel: WaitingChannel, default: None = None) -> None:  # type: ignore[override]
        super().pop(channel, None)
        share = self._of.pop(channel, None)
        if channel is self.first:
            self.first = None
        if share is not None:
            del share.channels[channel]
            if not share.channels:
                del (self._shares if share.key in self._shares else self._spent)[share.key]
                self.weight -= share.weight

    def move_to_end(self, channel: WaitingChannel, last: bool = True) -> None:
        """Move a channel to the end; or to the front, where it is `first`."""
        super().move_to_end(channel, last)
        if not last:
            self.first = channel

    def share_of(self, channel: WaitingChannel) -> Share:
        """Return the share of a channel: one that waits, is being served or is remembered, else a new one."""
        key, weight = channel.share(self.by)
        share = self._shares.get(key) or self._spent.get(key) or self.remembered.get(key)
        if share is None:
            serving = self._serving
            share = serving if serving is not None and serving.key == key else Share(key, weight)
            if self.remembers and len(self.remembered) < MOST_REMEMBERED:
                self.remembered[key] = share
                share.surplus = self.quantum * weight
        if not share.channels:
            share.weight = weight
        return share

    def next_turn(self) -> Share | None:
        """Return the share whose turn it is of those with a surplus in this round; None if there is none."""
        while self._shares:
            key, share = next(iter(self._shares.items()))
            if share.surplus > 0:
                self._shares.move_to_end(key)
                self._serving = share
                return share
            self._spent[key] = self._shares.pop(key)
        return None

    def all_spent(self) -> bool:
        """Whether every waiting share has used up its round."""
        return not self._shares

    def next_round(self, quantum: int) -> None:
        """Give every share its part of a round; of as many rounds as it takes for one that waits to have a surplus."""
        self.quantum = quantum
        shares = {**self.remembered, **self._spent, **self._shares}
        owed = [(-share.surplus) // (quantum * share.weight) for share in shares.values() if share.channels]
        rounds = 1 + max(min(owed, default=0), 0)
        for share in shares.values():
            due = quantum * share.weight
            most = max(share.surplus, SAVED_ROUNDS * due)
            share.surplus = min(max(share.surplus, -OWED_TURNS * due) + rounds * due, most)
        self._shares.update(self._spent)
        self._spent.clear()

    def forget(self) -> None:
        """Cease to remember shares that do not wait."""
        self.remembers = False
        self.remembered.clear()
        self.quantum = 0

    def end_turn(self) -> None:
        """No share is being served any more."""
        self._serving = None

    def shared_by(self, by: str) -> FairLine:
        """Return a line of the same channels, in shares of another kind."""
        line = FairLine(by)
        line.remembers, line.quantum = self.remembers, self.quantum
        for channel in self:
            line[channel] = None
        line.first = self.first
        return line


class Weights:
    """The weights of users, by policy; 1 unless one says otherwise."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.known: dict[tuple[str, str], int] = {}
        self.active = False

    def apply_topology(self) -> None:
        """Forget known weights: the topology has changed."""
        self.known.clear()
        self.active = any(WEIGHT in policy.definition for policy in self.topology.all_policies())

    def of(self, access: Access) -> int:
        """Return the weight of a user."""
        if not self.active:
            return 1
        whose = access.vhost, access.user
        weight = self.known.get(whose)
        if weight is None:
            policy = policy_for(self.topology, access.vhost, USER, access.user)
            weight = self.known[whose] = int(policy.definition.get(WEIGHT, 1)) if policy else 1
        return weight
