"""Limits on numbers of resources: setting, clearing, and their use as counted by the router and the acceptors."""

from __future__ import annotations

import pytest
import typer

from ops.administration import limits
from router.model.resource_limits import Scope
from tests.ops.commanded import Commanded


def commands(scope: Scope) -> typer.Typer:
    app = typer.Typer()
    limits.add_commands(app, scope)
    return app


VHOST, USER = commands("vhost"), commands("user")


def numbers(commanded: Commanded, app: typer.Typer, *words: str) -> dict[tuple[str, str], tuple[int, int, str]]:
    rows = commanded.json(app, "list-limits", *words)
    return {(row["name"], row["limit"]): (row["used"], row["number"], row["set"]) for row in rows}


def test_limits_that_are_not_named_stay(commanded: Commanded) -> None:
    before = numbers(commanded, VHOST)
    commanded.run(VHOST, "set-limits", "/", '{"max-queues": 4, "max-connections": 5}')
    assert commanded.run(VHOST, "set-limits", "/", '{"max-queues": 3}') == "limits of vhost '/' set\n"
    after = numbers(commanded, VHOST)
    assert after["/", "max-queues"] == (0, 3, "yes")
    assert after["/", "max-connections"] == (0, 5, "yes")
    assert commanded.run(VHOST, "clear-limits", "/", "max-queues") == "limits of vhost '/' cleared\n"
    assert ("/", "max-connections") in numbers(commanded, VHOST)
    assert numbers(commanded, VHOST).get(("/", "max-queues")) == before.get(("/", "max-queues"))
    commanded.run(VHOST, "clear-limits", "/")
    assert numbers(commanded, VHOST) == before


def test_the_use_is_counted_by_the_router_or_by_all_acceptors() -> None:
    with Commanded(acceptors=2) as commanded:
        for acceptor in (0, 1):
            client = commanded.node.connect(acceptor)
            client.call("channel.open", 1)
        client.call("channel.open", 2)
        commanded.node.declare("q")
        commanded.run(VHOST, "set-limits", "/", '{"max-queues": 9, "max-connections": 9}')
        commanded.run(USER, "set-limits", "guest", '{"max-connections": 9, "max-channels": 9}')
        of_vhost, of_user = numbers(commanded, VHOST), numbers(commanded, USER)
    assert (of_vhost["/", "max-queues"][0], of_vhost["/", "max-connections"][0]) == (1, 2)
    assert (of_user["guest", "max-connections"][0], of_user["guest", "max-channels"][0]) == (2, 3)


def test_near_are_those_used_to_nine_tenths(commanded: Commanded) -> None:
    for number in range(9):
        commanded.node.declare(str(number))
    commanded.run(VHOST, "set-limits", "/", '{"max-queues": 10}')
    assert numbers(commanded, VHOST, "--near") == {("/", "max-queues"): (9, 10, "yes")}
    commanded.run(VHOST, "set-limits", "/", '{"max-queues": 11}')
    assert numbers(commanded, VHOST, "--near") == {}


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("{", "limits must be JSON, such as '{\"max-connections\": 10}': Expecting property name"),
        ("[1]", "limits must be a JSON object, such as '{\"max-connections\": 10}'"),
    ],
)
def test_a_malformed_definition_is_refused(commanded: Commanded, definition: str, reason: str) -> None:
    assert commanded.refusal(VHOST, "set-limits", "/", definition).startswith(reason)
