"""`penstock restart acceptors`: it ends when each acceptor has a successor that serves."""

from __future__ import annotations

import pytest

from ops.administration import restart
from ops.administration.restart import _is_replaced
from penstock.memory.gauges import DEAD, READY, STARTING
from tests.ops.commanded import Commanded


def test_each_acceptor_is_reported_once_its_successor_serves() -> None:
    with Commanded(acceptors=2) as commanded:
        assert commanded.run(restart.app, "acceptors") == "acceptor 0 replaced\nacceptor 1 replaced\n"
        incarnations = [commanded.node.gauges.process_read("acceptor", index).incarnation for index in (0, 1)]
    assert incarnations == [2, 2]


@pytest.mark.parametrize(
    ("incarnation", "state", "replaced"), [(1, READY, False), (2, DEAD, False), (2, STARTING, False), (2, READY, True)]
)
def test_only_a_later_incarnation_that_is_ready_is_a_successor(
    commanded: Commanded, incarnation: int, state: int, replaced: bool
) -> None:
    gauges = commanded.node.gauges
    gauges.process_write("acceptor", 0, pid=7, incarnation=incarnation, state=state, started_us=0, restarts=0)
    assert _is_replaced(gauges, 0, 1) is replaced
