"""Connections unread because of the memory they use: logged once, and in the answer as long as they are unread."""

from __future__ import annotations

from structlog.testing import capture_logs

from acceptor.budgets.unread import WHY
from acceptor.clients.pauses import BODIES, HELD, OUTPUT
from acceptor.questions import questions
from tests.simulator.joined.node import Node


def test_it_is_told_of_once_and_as_long_as_it_lasts() -> None:
    with Node() as node:
        client = node.connect()
        connection, core = client.connection, node.core(0)
        unread = questions(core)["unread"][0]
        core.state.now = node.now
        with capture_logs() as logs:
            connection.pause_reading(HELD)
            assert unread() == []
            for why in (OUTPUT, BODIES):
                connection.pause_reading(why)
            core.state.now += 2
            assert [(found["reason"], found["unread_seconds"]) for found in unread()] == [
                (WHY[OUTPUT], 2.0),
                (WHY[BODIES], 2.0),
            ]
            assert {found["connection"] for found in unread()} == {connection.id}
            connection.resume_reading(OUTPUT)
            connection.pause_reading(OUTPUT)
            assert [found["unread_seconds"] for found in unread()] == [2.0, 0.0]
            connection.resume_reading(OUTPUT | BODIES)
            assert unread() == [] and not core.budgets.unread.since
        lines = [line for line in logs if line["event"] == "connection is not read"]
        assert [line["reason"] for line in lines] == [WHY[OUTPUT], WHY[BODIES]]


def test_one_that_is_gone_is_forgotten() -> None:
    with Node() as node:
        client = node.connect()
        client.connection.pause_reading(OUTPUT)
        assert node.core(0).budgets.unread.since
        client.lose()
        assert not node.core(0).budgets.unread.since
