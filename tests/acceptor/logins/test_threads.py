"""Results of threads come back in the loop, between the calls that begin and end what follows."""

from __future__ import annotations

import asyncio
import threading

from acceptor.logins.threads import Threads


async def run() -> list[str]:
    loop, said, done = asyncio.get_running_loop(), list[str](), asyncio.Event()
    threads = Threads(loop, lambda: said.append("begins"), lambda: said.append("ends"))
    main = threading.get_ident()

    def finished(ident: int) -> None:
        assert threading.get_ident() == main != ident
        said.append("done")
        done.set()

    for background in (threads.verifying, threads.calling):
        done.clear()
        background(threading.get_ident, finished)
        await done.wait()
        await asyncio.sleep(0)
    threads.close()
    return said


def test_results_come_back_in_the_loop() -> None:
    assert asyncio.run(run()) == ["begins", "done", "ends"] * 2
