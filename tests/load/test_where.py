"""Where the time of a lone message goes: the tables, from the relay and real nodes."""

from __future__ import annotations

import os
import re

import pytest

from load.ftrace import TRACEFS
from load.where import main
from tests.broker import Broker
from tests.load.test_tls import run

STAGES = [
    *("acceptor wakes", "acceptor receives", "acceptor works"),
    *("shard wakes", "shard receives", "shard works"),
    *("acceptor again wakes", "acceptor again receives", "acceptor again works"),
    *("consumer wakes", "consumer receives", "whole"),
]


def cells(table: str) -> list[list[str]]:
    """Return the rows of a table below its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


@pytest.mark.broker
@pytest.mark.skipif(os.geteuid() != 0 or not TRACEFS.exists(), reason="only root records, where there is a tracefs")
def test_the_way_of_a_message_through_the_relay_a_node_and_a_peer(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    main(broker.address.url, broker.pid, rate=50, runs=1, seconds=1)
    _, stages, peer, costs, shares = capsys.readouterr().out.split("\n\n")
    assert [row[0] for row in cells(stages)] == STAGES
    assert [row[0] for row in cells(peer)] == STAGES
    for name, *figures in cells(stages):
        floor, floor99, penstock, penstock99, beyond = map(float, figures)
        assert 0 <= floor <= floor99 and 0 <= penstock <= penstock99, name
        assert abs(penstock - floor - beyond) <= 2
    assert [row[0] for row in cells(costs)] == [
        f"{broker}: {process}" for broker in ("floor", "penstock", "peer") for process in ("acceptor", "shard", "all")
    ]
    assert all(float(figure) > 0 for row in cells(costs) for figure in row[1:])
    assert re.fullmatch(r"Messages that took these ways: floor \d+%, penstock \d+%, peer \d+%\.\n", shares)


def test_a_peer_needs_its_process() -> None:
    done = run("where", "--peer", "amqp://127.0.0.1:1")
    assert (done.returncode, done.stderr) == (2, "where: --peer needs --peer-pid\n")
