"""`penstock connection`: which are listed, and which are closed."""

from __future__ import annotations

import pytest

from ops.administration import connection
from tests.ops.commanded import Commanded
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import open_channel


@pytest.fixture
def clients(commanded: Commanded) -> dict[str, Client]:
    """Return a client of guest and two of bob, one of them to another vhost."""
    node = commanded.node
    node.add_vhost("eu")
    node.add_user("bob")
    node.permit("bob", ".*", "eu")
    node.settle()
    return {
        "guest": open_channel(node), "bob": open_channel(node, user="bob"),
        "bob in eu": node.connect(user="bob", vhost="eu"),
    }  # fmt: skip


def closed(clients: dict[str, Client]) -> list[str]:
    """Return who has been told to close."""
    clients["guest"].node.settle()
    return [name for name, client in clients.items() if "connection.close" in client.names()]


def test_connections_are_listed_all_or_some(commanded: Commanded, clients: dict[str, Client]) -> None:
    users = [(each["user"], each["vhost"]) for each in commanded.json(connection.app, "list")]
    assert sorted(users) == [("bob", "/"), ("bob", "eu"), ("guest", "/")]
    (row,) = commanded.rows(connection.app, "list", "--user", "bob", "--vhost", "/")
    assert row[0] == clients["bob"].connection.id
    assert row[1:7] == ["bob", "/", "-", "0", "0", "1"] and row[-2:] == ["yes", ""]
    assert commanded.run(connection.app, "list", "--user", "eve") == "no connections\n"


@pytest.mark.parametrize(
    ("selection", "who"),
    [(["--user", "bob"], ["bob", "bob in eu"]), (["--vhost", "/"], ["guest", "bob"]), (["--user", "eve"], [])],
)
def test_those_of_a_user_or_to_a_vhost_are_closed(
    commanded: Commanded, clients: dict[str, Client], selection: list[str], who: list[str]
) -> None:
    assert commanded.run(connection.app, "close", *selection) == f"{len(who)} connections closed\n"
    assert closed(clients) == who


def test_one_is_closed_for_a_reason(commanded: Commanded, clients: dict[str, Client]) -> None:
    id = clients["guest"].connection.id
    assert commanded.run(connection.app, "close", id, "--reason", "no more") == "1 connection closed\n"
    assert closed(clients) == ["guest"]
    assert clients["guest"].take("connection.close").text == "CONNECTION_FORCED - no more"
    assert commanded.refusal(connection.app, "close", id) == f"there is no connection {id}"


def test_not_all_are_closed_by_mistake(commanded: Commanded) -> None:
    assert commanded.refusal(connection.app, "close") == "name a connection, --user or --vhost"
