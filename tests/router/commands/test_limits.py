"""Limits on the resources of vhosts and users: commands, counts, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control.control import Refusal
from penstock.settings.limits import LimitSettings
from router.authority.extent import Bounds
from router.model.topology import Topology
from tests.router.making import Asked


@pytest.fixture
def asked() -> Asked:
    return Asked()


def limit(asked: Asked, scope: str, name: str, **limits: int) -> None:
    named = {f"max-{counted}": number for counted, number in limits.items()}
    asked.command("limits_set", scope=scope, name=name, limits=named)


def rows(asked: Asked, scope: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asked.command("limits_list", scope=scope)
    return found


def test_a_vhost_has_so_many_queues(asked: Asked) -> None:
    limit(asked, "vhost", "/", queues=1)
    asked.done("queue_declare", name="one")
    asked.done("queue_declare", name="one")
    assert asked.refused("queue_declare", name="two") == (
        406, "cannot declare queue 'two': queue limit in vhost '/' (1) is reached",
    )  # fmt: skip
    asked.command("vhost_add", name="other")
    asked.done("queue_declare", vhost="other", name="two")
    asked.done("queue_delete", queue_id=asked.topology.queue("/", "one").queue_id)
    asked.done("queue_declare", name="two")


def test_a_user_has_so_many_of_what_it_has_made_wherever(asked: Asked) -> None:
    asked.command("vhost_add", name="other")
    limit(asked, "user", "guest", queues=2, exchanges=1, bindings=1)
    asked.done("queue_declare", name="one")
    asked.done("queue_declare", vhost="other", name="two")
    assert asked.refused("queue_declare", name="three")[1] == (
        "cannot declare queue 'three': queue limit of user 'guest' (2) is reached"
    )
    asked.done("queue_declare", name="three", user="another")
    asked.done("exchange_declare", name="e", type="direct")
    assert "exchange limit of user 'guest' (1)" in asked.refused("exchange_declare", name="f", type="direct")[1]
    asked.done("queue_bind", queue="one", source="e", key="a")
    asked.done("queue_bind", queue="one", source="e", key="a")
    code, text = asked.refused("queue_bind", queue="one", source="e", key="b")
    assert (code, "binding limit of user 'guest' (1) is reached" in text) == (406, True)
    asked.done("queue_unbind", queue="one", source="e", key="a")
    asked.done("queue_bind", queue="one", source="e", key="b")


def test_what_a_command_has_set_goes_before_the_default(asked: Asked) -> None:
    asked.authority.bounds = Bounds(limits=LimitSettings(vhost_queues=0))
    assert asked.refused("queue_declare", name="q")[0] == 406
    limit(asked, "vhost", "/", queues=-1)
    asked.done("queue_declare", name="q")
    asked.command("limits_clear", scope="vhost", name="/", limit="max-queues")
    assert asked.refused("queue_declare", name="r")[0] == 406


def test_they_are_listed_with_what_is_used(asked: Asked) -> None:
    limit(asked, "vhost", "/", queues=5, connections=7)
    limit(asked, "user", "guest", channels=3)
    asked.done("queue_declare", name="q")
    of_vhost = {"name": "/", "set": True}
    assert rows(asked, "vhost") == [
        {**of_vhost, "limit": "max-connections", "number": 7, "used": None},
        {**of_vhost, "limit": "max-queues", "number": 5, "used": 1},
    ]
    assert rows(asked, "user") == [{"name": "guest", "limit": "max-channels", "number": 3, "set": True, "used": None}]
    asked.command("limits_clear", scope="user", name="guest", limit=None)
    assert rows(asked, "user") == []


def test_they_are_part_of_the_topology_and_go_with_whom_they_limit(asked: Asked) -> None:
    asked.command("vhost_add", name="v")
    asked.command("user_add", name="u", password_hash="", tags=[])
    limit(asked, "vhost", "v", queues=5)
    limit(asked, "user", "u", channels=3)
    copy = Topology(1, list(asked.topology.changes()))
    assert copy.limits.all() == asked.topology.limits.all() != {}
    asked.start_again(9)
    assert asked.topology.limits.all() == copy.limits.all()
    asked.command("vhost_delete", name="v")
    asked.command("user_delete", name="u")
    assert asked.topology.limits.all() == {}


@pytest.mark.parametrize(
    ("scope", "name", "limits", "said"),
    [
        ("vhost", "nowhere", {"max-queues": 1}, "there is no vhost 'nowhere'"),
        ("user", "nobody", {"max-queues": 1}, "there is no user 'nobody'"),
        ("node", "/", {"max-queues": 1}, "not of a 'node'"),
        ("vhost", "/", {"max-channels": 1}, "a vhost has no limit 'max-channels'"),
        ("vhost", "/", {"max-queues": "1"}, "max-queues is a number"),
        ("vhost", "/", {"max-queues": True}, "max-queues is a number"),
        ("vhost", "/", {"max-queues": -2}, "max-queues is a number"),
    ],
)
def test_what_is_no_limit_is_refused(asked: Asked, scope: str, name: str, limits: dict[str, object], said: str) -> None:
    with pytest.raises(Refusal, match=said):
        asked.command("limits_set", scope=scope, name=name, limits=limits)
    assert asked.topology.limits.all() == {}
