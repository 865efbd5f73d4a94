"""Requests to the node of a data directory: one line for each kind of failure, and tables of answers."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ops.administration.node import ask, gauges_of, show, show_rows
from ops.claim import Pointer, claimed
from ops.errors import CommandError
from tests.ops.commanded import Commanded


def refusal(data: Path) -> str:
    with pytest.raises(CommandError) as refused:
        ask(data, "vhost_list")
    with pytest.raises(CommandError) as closed:
        gauges_of(data)
    assert str(closed.value) == str(refused.value)
    return str(refused.value)


def test_a_command_gets_its_result_or_the_reason_of_the_refusal(commanded: Commanded) -> None:
    assert ask(commanded.data, "vhost_add", name="eu") is True
    with pytest.raises(CommandError, match=r"^there is no vhost 'us'$"):
        ask(commanded.data, "vhost_delete", name="us")
    with gauges_of(commanded.data) as gauges:
        assert (gauges.acceptors, gauges.shards) == (1, 1)


def test_a_directory_without_a_node_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"no node runs on {tmp_path}"
    Pointer(1, tmp_path, tmp_path / "gauges").store(tmp_path)
    assert refusal(tmp_path) == f"no node runs on {tmp_path}", "the pointer of a node that was killed"
    assert refusal(tmp_path / "none") == f"there is no data directory {tmp_path / 'none'}"


def test_a_node_that_starts_or_stops_is_to_be_asked_again(tmp_path: Path) -> None:
    with claimed(tmp_path):
        with pytest.raises(CommandError, match=f"^the node on {tmp_path} is starting or stopping; try again$"):
            ask(tmp_path, "vhost_list")
        Pointer(1, tmp_path / "run", tmp_path / "gauges").store(tmp_path)
        assert refusal(tmp_path) == f"the node on {tmp_path} is starting or stopping; try again"


def test_a_router_that_ends_before_it_has_answered_is_reported(commanded: Commanded) -> None:
    ended = commanded.facts.runtime / "ended"
    with socket.socket(socket.AF_UNIX) as router:
        router.bind(str(ended))
        router.listen()
        ended.replace(commanded.facts.control)
        closing = Thread(target=lambda: close_at_a_line(router))
        closing.start()
        with pytest.raises(CommandError) as refused:
            ask(commanded.data, "vhost_list")
        closing.join()
    assert str(refused.value) == f"the node on {commanded.data} does not answer: the node ended before it had answered"


def close_at_a_line(router: socket.socket) -> None:
    connection, _ = router.accept()
    with connection, connection.makefile("rb") as lines:
        lines.readline()


def test_lists_are_joined_and_nothing_is_markup(capsys: pytest.CaptureFixture[str]) -> None:
    records = [{"name": "[red]\udcff", "tags": ["a", "b"], "more": 1}]
    show(records, ("name", "tags"), as_json=False)
    head, _, row = capsys.readouterr().out.splitlines()[1:4]
    assert head.split() == ["┃", "name", "┃", "tags", "┃"]
    assert row.split("│")[1:3] == [" [red]\ufffd ", " a, b "]


def test_json_has_all_fields(capsys: pytest.CaptureFixture[str]) -> None:
    records = [{"name": "x", "tags": ["a", "b"], "more": 1}]
    show(records, ("name",), as_json=True)
    assert json.loads(capsys.readouterr().out) == records


def test_rows_are_made_of_records_for_people_only(capsys: pytest.CaptureFixture[str]) -> None:
    def row(record: dict[str, Any]) -> dict[str, Any]:
        return {"twice": 2 * record["number"]}

    show_rows([{"number": 21}], ("twice",), row, "nothing", as_json=False)
    assert "│ 42    │" in capsys.readouterr().out
    show_rows([], ("twice",), row, "nothing", as_json=False)
    assert capsys.readouterr().out == "nothing\n"
    for records in ([{"number": 21}], []):
        show_rows(records, ("twice",), row, "nothing", as_json=True)
        assert json.loads(capsys.readouterr().out) == records
