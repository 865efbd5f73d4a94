"""The times at which flushes begin."""

from __future__ import annotations

import asyncio

from shard.store.flushes import Flushes


class Loop(asyncio.SelectorEventLoop):
    """A loop whose clock moves only when the test sets it."""

    clock = 100.0

    def time(self) -> float:
        return self.clock

    def turn(self) -> None:
        for _ in range(2):
            self.call_soon(self.stop)
            self.run_forever()


def flushes(interval: float) -> tuple[Flushes, Loop, list[float]]:
    loop, begun = Loop(), list[float]()
    return Flushes(loop, interval, lambda: begun.append(loop.clock)), loop, begun


def test_one_at_a_time_and_an_interval_apart() -> None:
    subject, loop, begun = flushes(0.2)
    for _ in range(3):
        subject.want()
        loop.turn()
    assert begun == [100.0]
    loop.clock = 100.5
    loop.turn()
    assert begun == [100.0], "the first is still under way"
    subject.ended(False)
    loop.turn()
    assert begun == [100.0, 100.5]
    subject.ended(False)
    subject.want()
    loop.clock = 100.69
    loop.turn()
    assert len(begun) == 2
    loop.clock = 100.71
    loop.turn()
    assert len(begun) == 3
    subject.ended(False)
    loop.clock = 200.0
    loop.turn()
    assert len(begun) == 3, "nothing was written"
    loop.close()


def test_who_waits_for_one_need_not_wait_for_the_interval() -> None:
    subject, loop, begun = flushes(60.0)
    subject.want()
    loop.turn()
    subject.want(at_once=True)
    loop.turn()
    assert len(begun) == 1
    subject.ended(False)
    loop.turn()
    assert len(begun) == 2
    subject.ended(False)
    subject.want()
    subject.want(at_once=True)
    loop.turn()
    assert len(begun) == 3
    loop.close()


def test_one_that_failed_is_tried_again_after_a_second() -> None:
    subject, loop, begun = flushes(60.0)
    subject.want()
    loop.turn()
    subject.ended(True)
    subject.want(at_once=True)
    loop.turn()
    assert len(begun) == 1
    loop.clock += 1.01
    loop.turn()
    assert len(begun) == 2
    loop.close()


def test_none_where_each_commit_is_flushed() -> None:
    subject, loop, begun = flushes(0.0)
    subject.want()
    loop.turn()
    assert begun == []
    loop.close()


def test_none_after_the_end() -> None:
    subject, loop, begun = flushes(60.0)
    subject.want()
    subject.stop()
    subject.want()
    loop.turn()
    assert begun == []
    loop.close()
