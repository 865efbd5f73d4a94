"""A thread that runs jobs for the loop."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from shard.store.background import Background, Job


def test_one_piece_after_the_other_and_then_the_loop_is_told() -> None:
    reported: list[tuple[int, BaseException | None]] = []
    done: list[int] = []

    async def run() -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        background = Background(loop, "worker")

        def do(number: int) -> None:
            assert threading.current_thread().name == "worker"
            done.append(number)
            if number == 1:
                raise OSError("no")

        def finish(number: int, job: Job) -> None:
            assert threading.current_thread() is threading.main_thread()
            reported.append((number, job.error))
            if number == 2:
                over.set()

        for number in range(3):
            background.begin(partial(do, number), partial(finish, number))
        await over.wait()
        background.end()

    asyncio.run(run())
    assert done == [0, 1, 2]
    assert [number for number, _ in reported] == done
    assert [str(error) for _, error in reported] == ["None", "no", "None"]


@pytest.mark.parametrize("count", [0, 5])
def test_its_end_waits_for_what_was_begun(count: int) -> None:
    async def run() -> list[Job]:
        background = Background(asyncio.get_running_loop(), "worker")
        gate = threading.Event()
        jobs = [background.begin(gate.wait if not at else lambda: None, lambda job: None) for at in range(count)]
        gate.set()
        background.end()
        assert not any(thread.name == "worker" for thread in threading.enumerate())
        return jobs

    assert [job.error for job in asyncio.run(run())] == [None] * count
