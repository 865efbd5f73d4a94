"""Turns of logins: bounded in all and by host, in order, and nothing is left of them."""

from __future__ import annotations

import asyncio
from collections import Counter

from console.login_turns import OF_ALL, OF_HOST, LoginTurns


def test_one_host_does_not_keep_others_waiting() -> None:
    async def all_logins() -> None:
        turns, under_way, highest = LoginTurns(), Counter[str](), Counter[str]()
        order: list[str] = []

        async def login(host: str) -> None:
            async with turns.of(host):
                under_way[host] += 1
                highest[host] = max(highest[host], under_way[host])
                highest[""] = max(highest[""], under_way.total())
                await asyncio.sleep(0)
                under_way[host] -= 1
                order.append(host)

        guesses = [asyncio.create_task(login("storm")) for _ in range(100)]
        await asyncio.sleep(0)
        others = [asyncio.create_task(login(f"host {number}")) for number in range(20)]
        await asyncio.wait(others)
        assert order.count("storm") < 50
        guesses[-1].cancel()
        await asyncio.gather(*guesses, return_exceptions=True)
        assert highest["storm"] == OF_HOST and highest[""] <= OF_ALL
        assert not turns._hosts

    asyncio.run(all_logins())
