"""Virtual hosts: the contents of a new one, and the complete removal of a deleted one."""

from __future__ import annotations

import pytest

from penstock.control.control import Refusal
from router.authority import vhosts
from router.authority.vhosts import PREDECLARED
from router.model.records import VhostMetadata
from router.model.topology import Topology
from tests.router.making import Asked


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_a_new_vhost_has_the_predeclared_exchanges(asked: Asked) -> None:
    assert asked.command("vhost_add", name="v") is True
    assert {exchange.name for exchange in asked.topology.exchanges_in("v")} == {
        name for name, _, _ in vhosts.PREDECLARED
    }
    recorded = len(asked.recorded)
    assert asked.command("vhost_add", name="v") is False
    assert len(asked.recorded) == recorded


def test_a_vhost_has_a_description_and_tags_until_it_is_deleted(asked: Asked) -> None:
    before = list(asked.topology.changes())
    asked.command("vhost_add", name="v")
    asked.command("vhost_describe", name="v", description="first", tags=["a", "b"])
    asked.command("vhost_describe", name="v", description=None, tags=["c"])
    asked.command("vhost_describe", name="v", description="second", tags=None)
    recorded = len(asked.recorded)
    asked.command("vhost_describe", name="v", description="second", tags=["c"])
    assert len(asked.recorded) == recorded
    assert asked.topology.vhost_metadata["v"] == VhostMetadata("v", "second", ["c"])
    asked.command("vhost_delete", name="v")
    assert list(asked.topology.changes()) == before


def test_vhosts_know_nothing_of_each_other(asked: Asked) -> None:
    asked.command("vhost_add", name="v")
    asked.done("queue_declare", name="q")
    asked.done("exchange_declare", name="x")
    assert asked.refused("queue_lookup", vhost="v", name="q") == (404, "no queue 'q' in vhost 'v'")
    assert asked.refused("exchange_declare", vhost="v", name="x", passive=True) == (404, "no exchange 'x' in vhost 'v'")
    first = asked.done("queue_declare", vhost="v", name="q", auto_delete=True)
    assert first != asked.done("queue_lookup", name="q")
    assert asked.topology.route("v", "", "q") == (asked.topology.queue("v", "q"),)


def test_a_deleted_vhost_leaves_nothing(asked: Asked) -> None:
    asked.done("queue_place", vhost="/", name="q", shard=1)
    asked.done("queue_place", vhost="/", name="q", shard=None)
    before = list(asked.topology.changes())
    asked.command("vhost_add", name="v")
    asked.done("exchange_declare", vhost="v", name="x", durable=True)
    asked.done("exchange_declare", vhost="v", name="gone-with-it", auto_delete=True)
    asked.done("queue_declare", vhost="v", name="q", durable=True)
    asked.done("queue_declare", vhost="v", name="mine", exclusive=True)
    asked.done("queue_bind", vhost="v", queue="q", source="x")
    asked.done("exchange_bind", vhost="v", destination="x", source="gone-with-it")
    asked.done("queue_place", vhost="v", name="q", shard=1)
    replica = Topology(1, asked.topology.changes())
    recorded = len(asked.recorded)
    asked.command("vhost_delete", name="v")
    before[before.index(["placement_version", 2])] = ["placement_version", 3]
    assert list(asked.topology.changes()) == before
    for step in asked.recorded[recorded:]:
        replica.apply(step.change)
    assert list(replica.changes()) == before
    assert asked.recorded[-1].change == ["vhost_gone", "v"]


def test_slots_of_a_deleted_vhost_are_free_again() -> None:
    asked = Asked(shards=1, queues=1)
    for _ in range(3):
        asked.command("vhost_add", name="v")
        asked.done("queue_declare", vhost="v", name="q")
        asked.command("vhost_delete", name="v")


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "text"),
    [
        ("vhost_add", {"name": ""}, "invalid", "the vhost name cannot be empty"),
        ("vhost_add", {"name": "é" * 128}, "invalid", "vhost name of 256 bytes is longer than 255"),
        ("vhost_add", {"name": "a\nb"}, "invalid", "vhost name 'a\\nb' has a control character in it"),
        ("vhost_delete", {"name": "nowhere"}, "not_found", "there is no vhost 'nowhere'"),
        ("vhost_add", {}, "invalid", "vhost_add: name is missing"),
        (
            "vhost_describe",
            {"name": "/", "description": "x" * 4096, "tags": ["y"]},
            "invalid",
            "description and tags of 4097 bytes are longer than 4096",
        ),
        (
            "vhost_describe",
            {"name": "/", "description": None, "tags": [1]},
            "invalid",
            "the tags of a vhost are texts",
        ),
        ("vhost_add", {"name": 1}, "invalid", "vhost_add: name is of type int"),
        ("vhost_add", {"name": "v", "size": 1}, "invalid", "vhost_add: no argument 'size'"),
        ("vhost_sell", {}, "invalid", "unknown command 'vhost_sell'"),
    ],
)
def test_refusals_change_nothing(asked: Asked, name: str, arguments: dict[str, object], kind: str, text: str) -> None:
    before = len(asked.recorded)
    with pytest.raises(Refusal) as refused:
        asked.command(name, **arguments)
    assert (refused.value.kind, str(refused.value)) == (kind, text)
    assert len(asked.recorded) == before


def test_list(asked: Asked) -> None:
    asked.command("vhost_add", name="v")
    asked.done("queue_declare", vhost="v", name="q")
    assert asked.command("vhost_list") == [
        {"name": "/", "queues": 0, "exchanges": len(PREDECLARED)},
        {"name": "v", "queues": 1, "exchanges": len(PREDECLARED)},
    ]
