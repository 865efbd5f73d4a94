from __future__ import annotations

from pathlib import Path

import pytest

from load.node import LocalNode, NotStarted
from load.probe import prepare
from load.session import Session
from tests.waiting import wait_for


@pytest.mark.broker
def test_a_node_of_ones_own_shows_its_queues(tmp_path: Path) -> None:
    with LocalNode(tmp_path) as node:
        assert node.flow_state("q") is None
        session = Session(node.target, "test")
        marks = {"qpid.flow_stop_count": 3, "qpid.flow_resume_count": 1}
        session.channel.queue_declare("q", durable=True, arguments=marks)
        wait_for(lambda: (state := node.flow_state("q")) and state.stop_count, what="its marks")
        seen = node.flow_state("q")
        assert seen and (seen.depth, seen.saturated, seen.stop_count, seen.resume_count) == (0, False, 3, 1)
        session.publish("q", [b"x"] * 5)
        wait_for(lambda: (state := node.flow_state("q")) and state.saturated and state.depth >= 4)
        prepare(node.target, "q", marks)  # on a channel of its own: this one is held
        wait_for(lambda: (state := node.flow_state("q")) and not state.saturated)
        session.close()


def test_a_node_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the data directory should be")
    with pytest.raises(NotStarted, match="data"), LocalNode(tmp_path):
        raise AssertionError("it started")
