"""Commands on exchanges and bindings: what is listed, in which order, and in which words."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from penstock.control.control import Refusal
from router.commands.exchanges import words
from router.commands.registry import execute
from tests.router.making import Asked


@pytest.fixture
def asked() -> Asked:
    asked = Asked()
    execute(asked.administration(), "vhost_add", {"name": "eu"})
    asked.done(
        "exchange_declare", name="x", type="headers", durable=True, arguments={"alternate-exchange": "amq.fanout"}
    )
    asked.done("exchange_declare", name="a", type="topic", vhost="eu")
    asked.done("queue_declare", name="q")
    asked.done("queue_bind", queue="q", source="x", key="", arguments={"x-match": "all", "n": 7})
    asked.done("exchange_bind", destination="x", source="amq.topic", key="k.#")
    return asked


def listed(asked: Asked, command: str, vhost: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = execute(asked.administration(), command, {"vhost": vhost})
    return found


def test_exchanges_are_listed_by_vhost_and_name_without_the_default_one(asked: Asked) -> None:
    names = [(each["vhost"], each["name"]) for each in listed(asked, "exchange_list")]
    assert names == sorted(names) and {vhost for vhost, _ in names} == {"/", "eu"}
    assert ("/", "x") in names and ("eu", "a") in names and ("/", "") not in names
    (x,) = (each for each in listed(asked, "exchange_list", "/") if each["name"] == "x")
    assert x == {
        "vhost": "/", "name": "x", "type": "headers", "durable": True, "auto_delete": False, "internal": False,
        "alternate": "amq.fanout", "policy": None, "arguments": "alternate-exchange: amq.fanout",
    }  # fmt: skip
    assert {each["vhost"] for each in listed(asked, "exchange_list", "eu")} == {"eu"}


def test_bindings_are_listed_by_their_source(asked: Asked) -> None:
    first, second = listed(asked, "binding_list")
    assert (first["source"], first["kind"], first["destination"], first["key"]) == ("amq.topic", "exchange", "x", "k.#")
    assert (second["source"], second["kind"], second["destination"]) == ("x", "queue", "q")
    assert second["arguments"] == "x-match: all, n: 7"
    assert listed(asked, "binding_list", "eu") == []


@pytest.mark.parametrize("command", ["exchange_list", "binding_list"])
def test_a_vhost_that_does_not_exist_is_refused(asked: Asked, command: str) -> None:
    with pytest.raises(Refusal, match="there is no vhost 'nowhere'"):
        listed(asked, command, "nowhere")


def test_arguments_of_all_types_are_text() -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    found = words({"s": "text", "b": b"\xff", "t": True, "n": 1.5, "none": None, "d": when, "table": {"a": [1, b"x"]}})
    assert found == (
        's: text, b: \ufffd, t: true, n: 1.5, none: None, d: 2026-01-02 00:00:00+00:00, table: {"a": [1, "x"]}'
    )


def test_arguments_without_a_meaning_are_given_in_full(asked: Asked) -> None:
    odd = {"x-own": {"deep": [1, b"bytes", Decimal("1.5")]}, "x-none": None}
    asked.done("queue_declare", name="odd", arguments={"x-max-length": 5, **odd})
    asked.done("exchange_declare", name="odd", arguments={"x-own": True, "alternate-exchange": "x"})
    found = execute(asked.administration(), "foreign_arguments", {})
    shown = {"x-own": {"deep": [1, "bytes", "1.5"]}, "x-none": None}
    assert found == {"queues": [["/", "odd", shown]], "exchanges": [["/", "odd", {"x-own": True}]]}
