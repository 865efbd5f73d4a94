"""The table of kinds: complete, with unique names, and as other processes and stored files know it."""

from __future__ import annotations

from collections.abc import Iterable

from router.model.kinds import KINDS
from router.model.record_kind import Record
from router.model.topology import Topology

WIRE = {
    "shard": "number | state",
    "vhost": "name |",
    "vhost_metadata": "vhost | description tags",
    "policy": "vhost operator name | pattern apply_to priority definition",
    "exchange": "vhost name | type durable auto_delete internal arguments policy policy_alternate maker",
    "queue": "vhost name queue_id | slot shard durable auto_delete owner arguments limits features policy "
    "operator_policy maker",
    "binding": "vhost source kind destination key arguments | maker",
    "placement": "vhost queue | shard",
    "move": "queue_id | epoch source target phase source_incarnation target_incarnation plan since count size "
    "checksum outcome reason stop",
    "user": "name | password_hash tags",
    "permission": "user vhost | configure write read",
    "topic_permission": "user vhost exchange | write read",
    "limits": "scope name | limits",
    "stop": "number | vhost exchange key queue user connection author reason since until",
    "hold_off": "user host | times since until forget_at reason",
}
"""The key and the other fields of each kind, in the order in which they are sent and dumped."""


def test_the_fields_of_every_kind_are_those_on_the_wire_and_in_dumps() -> None:
    kinds = [record_type.record_kind for record_type in KINDS]
    shown = {kind.name: f"{' '.join(kind.key)} | {' '.join(kind.fields[len(kind.key) :])}".strip() for kind in kinds}
    assert shown == WIRE
    assert list(shown) == list(WIRE), "the order of a snapshot"
    assert len({kind.table for kind in kinds}) == len(kinds)


def test_every_class_of_records_is_in_the_table() -> None:
    def names(classes: Iterable[type[Record]]) -> set[str]:
        return {f"{each.__module__}.{each.__name__}" for each in classes}

    assert {name for name in names(Record.__subclasses__()) if name.startswith("router.")} == names(KINDS)


def test_flags_and_packed_fields_are_fields() -> None:
    for kind in (record_type.record_kind for record_type in KINDS):
        assert {*kind.flags, *kind.packed, *filter(None, [kind.order])} <= set(kind.fields)
        assert not set(kind.flags) & set(kind.packed)


def test_a_new_topology_has_no_records() -> None:
    assert list(Topology().changes()) == []
