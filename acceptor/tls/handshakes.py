"""Turns of TLS handshakes. A handshake costs hundreds of microseconds of the loop, and its client next to nothing: a
storm of them must not delay the connections that are open.

A client that has sent its first message waits for its turn, in which the handshake's costly step is made. Turns take
`SHARE` of the time at most while open connections have something to be read; while they are silent, handshakes may take
it all. Addresses have turns in rotation, so a storm from one delays no other. Of an address only so many may wait as
have their turn within seconds, beside busy connections too: all clients of a host that begin at once. Further ones are
refused, rather than answered when they have given up.

A storm from many addresses leaves room for the clients of others: beyond `WAITING_MOST_ALL` only the first client of an
address may wait. So those that wait are at most so many and one of each address, and `FIRST_MOST` addresses have room.

A handshake that has had its turn takes memory until it is complete, or its time is over. So only so many are under way
at once, of an address and of all; others wait.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import Generic, TypeVar

SHARE = 0.1
"""Part of the time that handshakes may take while open connections are busy."""
BURST_SECONDS = 0.01
"""Time that handshakes may take at once, after a pause."""
QUIET_SECONDS = 0.002
"""Without a read of an open connection for this long, they are silent."""
WAITING_MOST = 512
"""Clients of an address that may wait for their turn."""
WAITING_MOST_ALL = 2048
FIRST_MOST = 1024
UNDER_WAY_MOST = 128
"""Handshakes of an address that are under way, of some 24 KiB each."""
UNDER_WAY_MOST_ALL = 1024

C = TypeVar("C")


class Handshakes(Generic[C]):
    """The clients of one acceptor that wait for a turn, or have had it. Times are seconds of the acceptor's clock.

    `busy` is when an open connection was last read. `under_way` counts handshakes by address.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[C]] = OrderedDict()
        self._count = 0
        self.under_way: Counter[str] = Counter()
        self._under_way_all = 0
        self._saved = BURST_SECONDS
        self._counted = 0.0
        self.busy = 0.0

    def __len__(self) -> int:
        return self._count

    def ask(self, address: str, client: C) -> bool:
        """Have a client wait for its turn; False if it is refused, as too many wait."""
        if self.is_full(address):
            return False
        waiting = self._waiting.get(address)
        if waiting is None:
            waiting = self._waiting[address] = deque()
        waiting.append(client)
        self._count += 1
        return True

    def is_full(self, address: str) -> bool:
        """Whether a client of this address would be refused."""
        waiting = self._waiting.get(address)
        if waiting is None:
            return self._count >= WAITING_MOST_ALL + FIRST_MOST
        return self._count >= WAITING_MOST_ALL or len(waiting) >= WAITING_MOST

    def forget(self, address: str, client: C) -> None:
        """A client that waits has gone."""
        waiting = self._waiting.get(address)
        if waiting is not None and client in waiting:
            waiting.remove(client)
            self._count -= 1
            if not waiting:
                del self._waiting[address]

    def next(self, now: float) -> C | None:
        """Return the client whose turn it is, whose handshake is under way then; None if there is none, or it has to
        wait longer.
        """
        address = self._next_address() if self._count and self.seconds(now) <= 0 else None
        if address is None:
            return None
        waiting = self._waiting[address]
        client = waiting.popleft()
        self._count -= 1
        if waiting:
            self._waiting.move_to_end(address)
        else:
            del self._waiting[address]
        self.under_way[address] += 1
        self._under_way_all += 1
        return client

    def over(self, address: str) -> None:
        """A handshake that was under way is complete, or its client has gone."""
        self.under_way[address] -= 1
        if not self.under_way[address]:
            del self.under_way[address]
        self._under_way_all -= 1

    def _next_address(self) -> str | None:
        if self._under_way_all >= UNDER_WAY_MOST_ALL:
            return None
        return next((each for each in self._waiting if self.under_way[each] < UNDER_WAY_MOST), None)

    def seconds(self, now: float) -> float:
        """Return how long until the next turn may begin if nothing is read meanwhile; 0 if it may at once."""
        self._save(now)
        if self._saved > 0 or now - self.busy >= QUIET_SECONDS:
            return 0.0
        return min(-self._saved / SHARE + 1e-4, QUIET_SECONDS - (now - self.busy))

    def took(self, seconds: float, now: float) -> None:
        """A handshake's step has taken so long."""
        self._save(now)
        self._saved = max(self._saved - seconds, -BURST_SECONDS)

    def _save(self, now: float) -> None:
        self._saved = min(self._saved + (now - self._counted) * SHARE, BURST_SECONDS)
        self._counted = now
