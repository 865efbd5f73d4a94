"""Whether a shard's disk has room for more than acks. It is checked after each commit and, while there is none, each
second, since room made by others is not announced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from shard.contents.errors import StoreError
from shard.turns.room import DISK

if TYPE_CHECKING:
    from shard.store.store import Store
    from shard.turns.gate import Gate
    from shard.turns.state import ShardState

CHECK_SECONDS = 1.0


class DiskRoom:
    """`check_soon` has `check` done in the thread that writes, and then `report` in the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: Store,
        state: ShardState,
        gate: Gate,
        check_soon: Callable[[], object],
    ) -> None:
        self._loop = loop
        self._store = store
        self._state = state
        self._gate = gate
        self._check_soon = check_soon
        self._timer: asyncio.TimerHandle | None = None
        self._is_there = True
        self.check()
        self.report()

    def check(self) -> None:
        """Check the room, in the thread that writes. If that fails the last answer stands: a write will show the
        trouble.
        """
        try:
            self._is_there = self._store.has_room(was_full=not self._is_there)
        except StoreError:
            return

    def report(self) -> None:
        """Report the room to the gate, and have it checked again if there is none."""
        if self._is_there:
            self._gate.store_works(DISK, self._state.now)
            return
        self._gate.store_fails(DISK, "", self._state.now)
        if self._timer is None:
            self._timer = self._loop.call_later(CHECK_SECONDS, self._check_again)

    def _check_again(self) -> None:
        self._timer = None
        self._check_soon()

    def stop(self) -> None:
        """Cancel the pending check."""
        if self._timer is not None:
            self._timer.cancel()
