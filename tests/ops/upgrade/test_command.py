"""What `penstock upgrade` prints, and when it refuses to begin."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.claim import claimed
from ops.errors import CommandError
from ops.running import Running
from ops.upgrade import command
from ops.upgrade.progress import Progress, Stage
from penstock.memory.gauges import READY, STARTING, Gauges
from penstock.node.wire_format import WIRE_FORMAT


@pytest.fixture
def gauges(tmp_path: Path) -> Iterator[Gauges]:
    with Gauges.create(tmp_path / "g", epoch=1, acceptors=2, shards=1, queues=1, pid=os.getpid()) as gauges:
        yield gauges


def test_a_process_is_shown_once_its_next_one_serves(gauges: Gauges, capsys: pytest.CaptureFixture[str]) -> None:
    def put(index: int, incarnation: int, state: int) -> None:
        gauges.process_write(
            "acceptor", index, pid=1, incarnation=incarnation, state=state, started_us=0, restarts=incarnation - 1
        )

    put(0, 1, READY)
    put(1, 1, READY)
    shown = command._processes(gauges)
    assert shown == {("acceptor", 0): 1, ("acceptor", 1): 1}
    for state, printed in ((STARTING, ""), (READY, "acceptor 1 replaced\n"), (READY, "")):
        put(1, 2, state)
        shown = command._show(shown, command._processes(gauges))
        assert capsys.readouterr().out == printed


@pytest.mark.parametrize("wire_format", [0, WIRE_FORMAT + 1])
def test_a_node_of_another_wire_format_is_not_touched(wire_format: int, tmp_path: Path) -> None:
    node = Running(tmp_path, tmp_path, "", 0, 0, 0, 0, {}, {}, {}, None, wire_format)
    with pytest.raises(CommandError, match=r"cannot serve beside the running ones .*: stop the node and start it$"):
        command._check(node)


def test_a_node_that_ends_meanwhile_is_waited_for_no_more(tmp_path: Path) -> None:
    node = Running(tmp_path, tmp_path, "", 0, 0, 0, 0, {}, {}, {}, None, WIRE_FORMAT)
    with claimed(tmp_path / "data"):
        assert command._progress(node, tmp_path / "data") is None
        Progress(1, Stage.LOADING).store(tmp_path)
        assert command._progress(node, tmp_path / "data") == Progress(1, Stage.LOADING)
    with pytest.raises(CommandError, match=r"has ended; its log says why$"):
        command._progress(node, tmp_path / "data")


def test_without_a_node_there_is_nothing_to_upgrade(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=f"^no node runs on {tmp_path}$"):
        command.upgrade(tmp_path)
