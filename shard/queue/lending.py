"""Bounds of deliveries in flight from one shard to one acceptor: for the connections of each user, and of all users.

    of a user   8 % of memory.user_percent of memory.process_limit, an equal part of it for each acceptor and shard
    of all      a quarter of memory.process_limit, divided the same way; beyond it each user has an equal part

An outlet (`shard.queue.outlet_cy`) borrows as much as its connection may have, while there is plenty, and keeps it:
nothing is counted as long as no share is used up. Near the end of a share its outlets are lent less each, and unused
loans are called back. Where nothing remains, the next outlet is hungry until an eighth of the share is free. Any
remaining room lets a message of any size leave, so a share is exceeded by at most one message.
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

# Percent of a user's share, and of the limit of all processes, that deliveries in flight may have. They cost memory in
# both processes, and the buffers of the turns that they came in: several times their bytes in all.
OF_SHARE_PERCENT = 8
ALL_PERCENT = 25
# Unused loans are called back before an outlet gets fewer bytes than this.
LEAST_BYTES = 64 * 1024
# Hungry outlets wake once this part of the share is free.
FREE_PART = 8


class Lending:
    """The shares of an acceptor's users, in bytes. `hungry` are the shares with outlets that got nothing."""

    def __init__(self, of_user: int, of_all: int) -> None:
        self.of_user = of_user
        self.of_all = of_all
        self.lent = 0
        self.shares: WeakValueDictionary[str, Share] = WeakValueDictionary()
        self.hungry: dict[Share, None] = {}

    def share(self, user: str) -> Share:
        """The share of a user, made on first use."""
        share = self.shares.get(user)
        if share is None:
            share = self.shares[user] = Share(self, user)
        return share

    def is_used_up(self) -> bool:
        """Whether all users together have borrowed as much as they may."""
        return self.lent >= self.of_all

    def woken(self, outlet: Outlet) -> list[Consumer]:
        """Bytes came back to an outlet: return the consumers that may go on."""
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
    """The loans to the connections of one user, in bytes. `restless` is set once an outlet may have unused bytes."""

    __slots__ = ("__weakref__", "hungry", "lending", "lent", "logged", "outlets", "restless", "user")

    def __init__(self, lending: Lending, user: str) -> None:
        self.lending = lending
        self.user = user
        self.lent = 0
        self.outlets: WeakSet[Outlet] = WeakSet()
        self.hungry: dict[Outlet, None] = {}
        self.restless = False
        self.logged = False

    def room(self) -> int:
        """Bytes that may still be lent; 0 or less if none."""
        lending = self.lending
        if lending.is_used_up() and self.lent * len(lending.shares) >= lending.of_all:
            return 0
        return lending.of_user - self.lent

    def borrow(self, outlet: Outlet) -> bool:
        """Lend an outlet up to its limit, but at most half of the room; if there is none, make it hungry and return
        False.
        """
        if self.room() < 2 * LEAST_BYTES:
            self.take_back_unused()
        room = self.room()
        if room <= 0:
            self.starve(outlet)
            return False
        nbytes = min(outlet.nbytes - outlet.lent, max(room // 2, 1))
        self.lend(outlet, nbytes)
        return True

    def lend(self, outlet: Outlet, nbytes: int) -> None:
        """Lend bytes to an outlet, whatever the room."""
        outlet.lent += nbytes
        outlet.window += nbytes
        self.lent += nbytes
        self.lending.lent += nbytes
        self.restless = True

    def take_back(self, outlet: Outlet, nbytes: int) -> None:
        """Take bytes of an outlet's window back."""
        outlet.lent -= nbytes
        outlet.window -= nbytes
        self.lent -= nbytes
        self.lending.lent -= nbytes

    def take_back_unused(self) -> None:
        """Take back unused bytes from the outlets of this user, or of all users if the bound of all is reached."""
        shares = list(self.lending.shares.values()) if self.lending.is_used_up() else [self]
        for share in shares:
            if share.restless:
                share.restless = False
                for outlet in share.outlets:
                    share.take_back(outlet, outlet.window)

    def starve(self, outlet: Outlet) -> None:
        """Make an outlet hungry, and log the first time."""
        self.hungry[outlet] = None
        self.lending.hungry[self] = None
        if not self.logged:
            self.logged = True
            log.warning("consumers wait, their user's connections do not read their deliveries", user=self.user,
                        bytes=self.lent, connections=len(self.outlets))  # fmt: skip

    def fed(self) -> list[Consumer]:
        """There is room again: return the consumers that may go on."""
        del self.lending.hungry[self]
        outlets, self.hungry = self.hungry, {}
        woken: list[Consumer] = []
        for outlet in outlets:
            woken += outlet.sleepers
            outlet.sleepers.clear()
        return woken


def lending_of(settings: Settings) -> Lending:
    """The bounds of deliveries in flight from one shard to one acceptor."""
    memory, pairs = settings.memory, settings.acceptors * settings.shards
    of_user = memory.process_limit * memory.user_percent * OF_SHARE_PERCENT // 100 // 100 // pairs
    of_all = memory.process_limit * ALL_PERCENT // 100 // pairs
    return Lending(max(of_user, LEAST_BYTES), max(of_all, LEAST_BYTES))
