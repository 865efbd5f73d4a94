from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from load.counters import Tally
from load.payload import stamped
from load.probe import drain, prepare
from load.ranges import RangeSet
from load.session import Session
from load.target import Target
from tests.waiting import PATIENCE, wait_for


@pytest.fixture
def session(url: str) -> Iterator[Session]:
    session = Session(Target.parse(url), "test")
    yield session
    session.close()


@pytest.mark.broker
def test_a_batch_is_confirmed_and_consumed(session: Session, queue: str) -> None:
    """Confirms come as ranges of tags from 1 up; each message is delivered as it was published."""
    settled, got = RangeSet(), []
    session.channel.queue_declare(queue)
    session.confirm_select(lambda tags, acked: settled.update(tags) if acked else None)
    bodies = [b"%d" % number for number in range(50)]
    session.publish(queue, bodies)
    wait_turning(session, lambda: not session.unconfirmed)
    assert list(settled) == [(1, 51)]
    assert session.depth(queue) == 50
    session.consume(queue, 100, lambda method, _properties, body: got.append((method.delivery_tag, body)))
    wait_turning(session, lambda: len(got) == 50)
    assert [body for _, body in got] == bodies
    session.ack_up_to(got[-1][0])
    assert session.depth(queue) == 0


@pytest.mark.broker
def test_drain_takes_and_notes_all_that_is_left(session: Session, url: str, queue: str) -> None:
    target, tally = Target.parse(url), Tally()
    prepare(target, queue, {})
    session.publish(queue, [stamped(number, 7, 64) for number in range(2500)])
    tally.record_confirmed(7, 0, 2500)
    wait_for(lambda: session.depth(queue) == 2500, what="what was published without confirms")
    assert drain(target, queue, tally, PATIENCE) == 2500
    assert tally.lost() == {}
    session.channel.queue_delete(queue)


def wait_turning(session: Session, condition: Callable[[], bool]) -> None:
    def turned() -> bool:
        session.turn(0.02)
        return condition()

    wait_for(turned)


def test_only_locusts_own_part_imports_locust() -> None:
    """Importing Locust replaces the process's sockets; demonstration and benchmarks must not run on those."""
    program = (
        "import sys, load.bench, load.demo, load.options, load.probe, load.session, load.verdict\n"
        "assert 'gevent' not in sys.modules and 'locust' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
