"""The work of the balancer on a served node: plans are kept or applied, and nothing is moved in vain."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ops.balancer.work import Work
from ops.rebalance.automatic import Pause, PauseFile, said
from ops.rebalance.past import Past, past_of
from ops.rebalance.records import Records
from penstock.settings.sections import RebalanceSettings
from tests.ops.served import ServedNode, served, write
from tests.repeating import repeated
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.long

QUEUES = ("a", "b", "c", "d")


def settings(**given: Any) -> RebalanceSettings:
    automatic = {"mode": "on", "window_seconds": 0.5, "every_seconds": 0.01, "windows": 2, "goals": ["load"], **given}
    limits = {"low_rate": 1, "cpu_percent": 100, "loop_lag_ms": 0, "coverage_percent": 0}
    return RebalanceSettings(**limits, automatic=automatic)


@contextmanager
def loaded(node: ServedNode) -> Iterator[None]:
    """Have all queues publish as much, as their gauges show it."""
    slots = [slot for slot in node.gauges.queue_slots() if slot >= node.gauges.shards]
    published = count(10, 10)

    def publish() -> None:
        messages = next(published)
        for slot in slots:
            write(node.gauges, slot, published=messages, delivered=messages)

    with repeated(publish):
        yield


@contextmanager
def working(node: ServedNode, chosen: RebalanceSettings) -> Iterator[Work]:
    work = Work(node.data, chosen)
    thread = threading.Thread(target=work.run)
    thread.start()
    try:
        yield work
    finally:
        work.stop()
        thread.join()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    with served(tmp_path / "data") as node:
        for name in QUEUES:
            node.declare(name, 0)
        with loaded(node):
            yield node


def past(node: ServedNode) -> Past:
    return past_of(Records(node.data).all())


def wait_for_state(node: ServedNode, *states: str) -> None:
    wait_for(lambda: [plan.state for plan in past(node).plans] == [*states], PATIENCE, f"{states}")


def wait_for_words(node: ServedNode, words: str) -> None:
    def found() -> bool:
        last = said(node.data)
        return last is not None and words in last.why

    wait_for(found, PATIENCE, words)


def shares(node: ServedNode) -> list[int]:
    """Return the numbers of queues on both shards."""
    homes = list(node.homes().values())
    return [homes.count(shard) for shard in (0, 1)]


def test_an_uneven_load_is_evened_out_once(node: ServedNode) -> None:
    with working(node, settings(rest_seconds=0)):
        wait_for_state(node, "applied")
        assert shares(node) == [2, 2]
        wait_for_words(node, "no window was uneven")
    assert len(past(node).plans) == 1


def test_an_attempt_keeps_within_the_limits_of_a_run(node: ServedNode) -> None:
    with working(node, settings(moves_per_run=1)):
        wait_for_state(node, "applied")
        wait_for_words(node, "has ended")
    assert shares(node) == [3, 1]


def test_the_mode_may_change_while_it_works(node: ServedNode) -> None:
    with working(node, settings(mode="off")) as work:
        wait_for_words(node, "it is off")
        work.settings = settings(mode="dry-run")
        wait_for(lambda: past(node).plans, PATIENCE, "a kept plan")
        wait_for_words(node, "waits for an operator")
        assert shares(node) == [4, 0]
        work.settings = settings()
        wait_for(lambda: shares(node) == [2, 2], PATIENCE, "its moves")
        wait_for_words(node, "has ended")
    assert [(plan.ours, plan.state) for plan in past(node).plans] == [(True, ""), (True, "applied")]


def test_outside_of_the_quiet_hours_nothing_moves(node: ServedNode) -> None:
    hour = (time.localtime().tm_hour + 12) % 24
    with working(node, settings(quiet_hours=f"{hour:02}:00-{hour:02}:30")) as work:
        wait_for_words(node, "it waits for the quiet hours")
        assert shares(node) == [4, 0]
        work.settings = settings()
        wait_for_state(node, "applied")


def test_a_plan_that_nobody_may_go_on_with_is_given_up(node: ServedNode) -> None:
    record = {"at": time.time(), "plan": "20260101-000000-00000000", "event": "begun", "by": "automatic"}
    Records(node.data)._history.append([{**record, "undoes": None, "moves": 1}])
    PauseFile(node.data).write(Pause("ann"))
    with working(node, settings()):
        wait_for_state(node, "withdrawn")
        wait_for_words(node, "ann has paused it")
    assert shares(node) == [4, 0]


def test_a_pause_that_cannot_be_read_stops_it(node: ServedNode) -> None:
    file = PauseFile(node.data)
    file.write(Pause("ann"))
    file.path.write_text("{")
    with working(node, settings()):
        wait_for_words(node, "`penstock rebalance resume` removes it")
        assert shares(node) == [4, 0]
        file.remove()
        wait_for_state(node, "applied")
