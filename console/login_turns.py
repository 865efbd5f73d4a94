"""Turns of logins over HTTP: a few are checked at once, fewer of one host, so that guesses keep nobody else waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

OF_ALL = 8
OF_HOST = 2


class LoginTurns:
    """The turns of one process. Logins beyond them wait, those of each host in their order."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(OF_ALL)
        self._hosts: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def of(self, host: str) -> AsyncIterator[None]:
        """Have a turn for a login from a host."""
        turns, logins = self._hosts.get(host) or (asyncio.Semaphore(OF_HOST), 0)
        self._hosts[host] = turns, logins + 1
        try:
            async with turns, self._all:
                yield
        finally:
            logins = self._hosts[host][1] - 1
            if logins:
                self._hosts[host] = turns, logins
            else:
                del self._hosts[host]
