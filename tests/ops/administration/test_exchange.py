"""`penstock exchange` and `penstock binding`."""

from __future__ import annotations

from ops.cli import app
from tests.ops.commanded import Commanded


def test_exchanges_and_bindings_are_listed(commanded: Commanded) -> None:
    node = commanded.node
    node.declare("q")
    node.bind("orders", "q", key="eu.#", type="topic")
    node.ask("exchange_bind", destination="amq.fanout", source="orders", key="")
    rows = commanded.rows(app, "exchange", "list", "--vhost", "/")
    assert ["/", "orders", "topic", "False", "False", "False", "", "", ""] in rows
    assert commanded.rows(app, "binding", "list") == [
        ["/", "orders", "exchange amq.fanout", "", ""], ["/", "orders", "q", "eu.#", ""],
    ]  # fmt: skip
    assert commanded.json(app, "binding", "list")[1]["destination"] == "q"


def test_without_any_that_is_said(commanded: Commanded) -> None:
    assert commanded.run(app, "binding", "list") == "no bindings\n"
    assert commanded.refusal(app, "exchange", "list", "--vhost", "nowhere") == "there is no vhost 'nowhere'"
