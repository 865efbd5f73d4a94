"""Bounds of deliveries in flight from one shard to one acceptor: for the connections of each user, and of all users.

    of a user   8 % of memory.user_percent of memory.process_limit, an equal part of it for each acceptor and shard
    of all      a quarter of memory.process_limit, divided the same way; beyond it each user has an equal part

An outlet (`shard.queue.outlet_cy`) borrows as much as its connection may have, while there is plenty, and keeps it:
nothing is counted as long as no share is used up. No outlet borrows more than it leaves as room for the others (the
dynamic thresholds of Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998):
however large its limit, a connection that does not read cannot use up its user's share alone.

    plenty ──(an outlet gets nothing: it is hungry)──▶ short ──(nobody is hungry, an eighth is free)──▶ plenty

While a share is short, bytes that come back are lent to the hungry outlets in their order, and the acceptor reports
what has left for sockets at once: otherwise it waits for an eighth of a window, which may be more than was lent. So an
outlet is hungry only as long as bytes in flight have not left for their sockets. Any remaining room lets a message of
any size leave, so a share is exceeded by at most one message.

Invariant: only consumers that find a message borrow and are hungry. Others, above all those whose messages are being
read from the store, would return each loan unused and be hungry again, and a turn would not end while they pass the
same bytes on to each other.
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
# A share is short until this part of it is free.
FREE_PART = 8


class Lending:
    """The shares of an acceptor's users, in bytes. `short` are those that are short; `urgent` is set once the acceptor
    has been told to report at once.
    """

    def __init__(self, of_user: int, of_all: int) -> None:
        self.of_user = of_user
        self.of_all = of_all
        self.lent = 0
        self.shares: WeakValueDictionary[str, Share] = WeakValueDictionary()
        self.short: dict[Share, None] = {}
        self.urgent = False

    def share(self, user: str) -> Share:
        """The share of a user, made on first use."""
        share = self.shares.get(user)
        if share is None:
            share = self.shares[user] = Share(self, user)
        return share

    def is_used_up(self) -> bool:
        """Whether all users together have borrowed as much as they may."""
        return self.lent >= self.of_all

    def feed(self) -> list[Consumer]:
        """Lend unused bytes to hungry outlets; return the consumers that may go on."""
        woken: list[Consumer] = []
        for share in list(self.short):
            share.take_back_unused()
            woken += share.feed()
            if not share.hungry and share.room() * FREE_PART >= self.of_user:
                del self.short[share]
        return woken


class Share:
    """The loans to the connections of one user, in bytes. `hungry` are the outlets that got nothing, in the order in
    which they will be lent to. `restless` is set once an outlet may have unused bytes.
    """

    __slots__ = ("__weakref__", "hungry", "lending", "lent", "logged", "outlets", "restless", "user")

    def __init__(self, lending: Lending, user: str) -> None:
        self.lending = lending
        self.user = user
        self.lent = 0
        self.outlets: WeakSet[Outlet] = WeakSet()
        self.hungry: dict[Outlet, None] = {}
        self.restless = False
        self.logged = False

    def is_short(self) -> bool:
        return self in self.lending.short

    def room(self) -> int:
        """Bytes that may still be lent; 0 or less if none."""
        lending = self.lending
        if lending.is_used_up() and self.lent * len(lending.shares) >= lending.of_all:
            return 0
        return lending.of_user - self.lent

    def borrow(self, outlet: Outlet) -> bool:
        """Lend to an outlet if nobody is ahead of it; return False if it got nothing and is hungry."""
        if self.room() < 2 * LEAST_BYTES and not self.is_short():
            self.take_back_unused()
        if not self.hungry and self.lend_part(outlet):
            return True
        self.starve(outlet)
        return False

    def lend_part(self, outlet: Outlet) -> bool:
        """Lend an outlet up to its limit, but no more in all than remains as room; return whether it got anything."""
        nbytes = min(outlet.nbytes - outlet.lent, (self.room() - outlet.lent + 1) // 2)
        if nbytes <= 0:
            return False
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
        self.lending.short[self] = None
        if not self.logged and self.room() <= 0:
            self.logged = True
            log.warning("consumers wait, their user has as much in flight as it may have", user=self.user,
                        bytes=self.lent, connections=len(self.outlets))  # fmt: skip

    def feed(self) -> list[Consumer]:
        """Lend to hungry outlets in their order, as far as the room goes; return the consumers that may go on."""
        woken: list[Consumer] = []
        for outlet in list(self.hungry):
            if not any(consumer.finds_message() for consumer in outlet.sleepers) or self.lend_part(outlet):
                del self.hungry[outlet]
                woken += outlet.sleepers
                outlet.sleepers.clear()
            elif self.room() <= 0:
                break
        return woken


def lending_of(settings: Settings) -> Lending:
    """The bounds of deliveries in flight from one shard to one acceptor."""
    memory, pairs = settings.memory, settings.acceptors * settings.shards
    of_user = memory.process_limit * memory.user_percent * OF_SHARE_PERCENT // 100 // 100 // pairs
    of_all = memory.process_limit * ALL_PERCENT // 100 // pairs
    return Lending(max(of_user, LEAST_BYTES), max(of_all, LEAST_BYTES))
