"""What all connections of a user may be sent before it arrives, and those of all users, by one shard and one acceptor.

    of a user   8 % of memory.user_percent of memory.process_limit, an equal part of it for each acceptor and shard
    of all      a quarter of memory.process_limit, parted the same way; beyond it each user has an equal part

An outlet (`shard.queue.outlet_cy`) borrows what its connection may have, all of it as long as there is plenty, and
keeps it: nothing is counted while nobody is over. Where a share comes to its end, its outlets are lent less each, and
what they have and do not use is taken back; where nothing is left, who would be next is hungry until an eighth of the
share is free. A message of any size leaves while anything is: a share is exceeded by one message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet, WeakValueDictionary

from penstock.node.logs import get_logger
from penstock.settings import Settings

if TYPE_CHECKING:
    from shard.queue.consumer_cy import Consumer
    from shard.queue.outlet_cy import Outlet

log = get_logger()

# Of what a user may have, deliveries under way may be so much: in it, and in the limit of all processes, percent. They
# cost memory in both processes, and the buffers of turns that they came in: several times their octets in all.
OF_SHARE_PERCENT = 8
ALL_PERCENT = 25
# What is taken back before an outlet gets less than that, octets.
LEAST_OCTETS = 64 * 1024
# Who is hungry wakes once this part of the share is free.
FREE_PART = 8


class Lending:
    """The shares of an acceptor's users, octets. `hungry` are those of whose outlets some got nothing."""

    def __init__(self, of_user: int, of_all: int) -> None:
        self.of_user = of_user
        self.of_all = of_all
        self.lent = 0
        self.shares: WeakValueDictionary[str, Share] = WeakValueDictionary()
        self.hungry: dict[Share, None] = {}

    def share(self, user: str) -> Share:
        """What a user may have, made on first use."""
        share = self.shares.get(user)
        if share is None:
            share = self.shares[user] = Share(self, user)
        return share

    def is_used_up(self) -> bool:
        return self.lent >= self.of_all

    def woken(self, outlet: Outlet) -> list[Consumer]:
        """Something came back to an outlet: whose hunger has an end by that."""
        if outlet.share in self.hungry:
            outlet.share.take_back(outlet, outlet.window)
            if outlet.sleepers:
                outlet.share.hungry[outlet] = None
        woken: list[Consumer] = []
        for share in list(self.hungry):
            share.take_back_unused()
            if share.room() * FREE_PART >= self.of_user:
                woken += share.fed()
        return woken


class Share:
    """What the connections of a user have been lent, octets. `restless` once an outlet may have what it does not
    use."""

    __slots__ = ("__weakref__", "hungry", "lending", "lent", "outlets", "restless", "told", "user")

    def __init__(self, lending: Lending, user: str) -> None:
        self.lending = lending
        self.user = user
        self.lent = 0
        self.outlets: WeakSet[Outlet] = WeakSet()
        self.hungry: dict[Outlet, None] = {}
        self.restless = False
        self.told = False

    def room(self) -> int:
        """What may still be lent; 0 or less if nothing."""
        lending = self.lending
        if lending.is_used_up() and self.lent * len(lending.shares) >= lending.of_all:
            return 0
        return lending.of_user - self.lent

    def borrow(self, outlet: Outlet) -> bool:
        """Lend an outlet what it may have, or half of what is left; False, and it is hungry, where nothing is."""
        if self.room() < 2 * LEAST_OCTETS:
            self.take_back_unused()
        room = self.room()
        if room <= 0:
            self.starve(outlet)
            return False
        octets = min(outlet.octets - outlet.lent, max(room // 2, 1))
        self.lend(outlet, octets)
        return True

    def lend(self, outlet: Outlet, octets: int) -> None:
        outlet.lent += octets
        outlet.window += octets
        self.lent += octets
        self.lending.lent += octets
        self.restless = True

    def take_back(self, outlet: Outlet, octets: int) -> None:
        outlet.lent -= octets
        outlet.window -= octets
        self.lent -= octets
        self.lending.lent -= octets

    def take_back_unused(self) -> None:
        """What outlets have and do not use now: of this user, or of all where all have no more."""
        shares = list(self.lending.shares.values()) if self.lending.is_used_up() else [self]
        for share in shares:
            if share.restless:
                share.restless = False
                for outlet in share.outlets:
                    share.take_back(outlet, outlet.window)

    def starve(self, outlet: Outlet) -> None:
        self.hungry[outlet] = None
        self.lending.hungry[self] = None
        if not self.told:
            self.told = True
            log.warning("consumers wait, their user's connections do not take what they were sent", user=self.user,
                        octets=self.lent, connections=len(self.outlets))  # fmt: skip

    def fed(self) -> list[Consumer]:
        """There is room again: those who may go on."""
        del self.lending.hungry[self]
        outlets, self.hungry = self.hungry, {}
        woken: list[Consumer] = []
        for outlet in outlets:
            woken += outlet.sleepers
            outlet.sleepers.clear()
        return woken


def lending_of(settings: Settings) -> Lending:
    """What one acceptor's connections may have under way from one shard."""
    memory, pairs = settings.memory, settings.acceptors * settings.shards
    of_user = memory.process_limit * memory.user_percent * OF_SHARE_PERCENT // 100 // 100 // pairs
    of_all = memory.process_limit * ALL_PERCENT // 100 // pairs
    return Lending(max(of_user, LEAST_OCTETS), max(of_all, LEAST_OCTETS))
