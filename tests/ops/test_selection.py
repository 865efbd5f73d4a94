"""`--where` and `--sort`: one way to select and order the rows of all lists."""

from __future__ import annotations

from typing import Any

import pytest

from ops.administration import connection, vhost
from ops.errors import CommandError
from ops.selection import selected_rows
from tests.ops.commanded import Commanded
from tests.simulator.joined.node import open_channel

ROWS: list[dict[str, Any]] = [
    {"name": "eu.orders", "ready": 5, "saturated": True, "tags": ["a", "b"], "left": None},
    {"name": "eu.Bills", "ready": 40, "saturated": False, "tags": [], "left": 3.5},
    {"name": "us.orders", "ready": 0, "saturated": False, "tags": ["b"], "left": 1.5},
]


def names(where: list[str], sort: str | None = None) -> str:
    return " ".join(row["name"] for row in selected_rows(ROWS, where, sort))


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ([], "eu.orders eu.Bills us.orders"), (["name=eu.*"], "eu.orders eu.Bills"), (["name=eu"], ""),
        (["name!=eu.*"], "us.orders"), (["ready>0"], "eu.orders eu.Bills"), (["ready >= 40"], "eu.Bills"),
        (["ready<5"], "us.orders"), (["ready<=5", "name=eu.*"], "eu.orders"), (["saturated=yes"], "eu.orders"),
        (["saturated=false"], "eu.Bills us.orders"), (["tags=a"], "eu.orders"), (["tags!=b"], "eu.Bills"),
        (["left="], "eu.orders"), (["left>1"], "eu.Bills us.orders"), (["name=*=*"], ""),
    ],
)  # fmt: skip
def test_rows_are_those_of_which_all_conditions_are_true(where: list[str], found: str) -> None:
    assert names(where) == found


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        ("ready", "eu.Bills eu.orders us.orders"), ("-ready", "us.orders eu.orders eu.Bills"),
        ("name", "eu.Bills eu.orders us.orders"), ("-name", "us.orders eu.orders eu.Bills"),
        ("left", "eu.Bills us.orders eu.orders"), ("saturated", "eu.orders eu.Bills us.orders"),
    ],
)  # fmt: skip
def test_numbers_come_from_the_largest_texts_from_a_and_what_is_missing_last(sort: str, found: str) -> None:
    assert names([], sort) == found


@pytest.mark.parametrize(
    ("where", "sort", "reason"),
    [
        (["ready"], None, "--where: 'ready' is not FIELD=TEXT, FIELD!=TEXT, FIELD>NUMBER or FIELD<NUMBER"),
        (["ready>many"], None, "--where: > compares numbers, and 'many' is none"),
        (["size>1"], None, "there is no field 'size'; the fields are name, ready, saturated, tags, left"),
        ([], "size", "there is no field 'size'; the fields are name, ready, saturated, tags, left"),
    ],
)
def test_a_mistake_is_named(where: list[str], sort: str | None, reason: str) -> None:
    with pytest.raises(CommandError) as caught:
        selected_rows(ROWS, where, sort)
    assert str(caught.value) == reason


def test_a_row_without_a_field_has_nothing_there() -> None:
    rows: list[dict[str, Any]] = [{"event": "stop", "queue": "q"}, {"event": "limits", "rung": 3}]
    assert selected_rows(rows, ["rung>2"], None) == rows[1:]
    assert selected_rows(rows, ["queue="], None) == rows[1:]
    assert selected_rows(rows, None, "rung") == rows[::-1]
    with pytest.raises(CommandError, match="the fields are event, queue, rung"):
        selected_rows(rows, ["reason=x"], None)


def test_lists_are_selected_and_ordered(commanded: Commanded) -> None:
    commanded.node.add_vhost("eu")
    commanded.node.settle()
    open_channel(commanded.node)
    assert [each["name"] for each in commanded.json(vhost.app, "list", "--sort", "-name")] == ["eu", "/"]
    assert [row[0] for row in commanded.rows(vhost.app, "list", "--where", "name=e?")] == ["eu"]
    assert commanded.json(connection.app, "list", "--where", "channels>0", "--sort", "unacked") != []
    assert commanded.run(connection.app, "list", "--where", "channels>1") == "no connections\n"
