"""Records of the topology as replicas have them: two topologies are equal if their records are."""

from __future__ import annotations

from penstock import bus
from router.core import for_replicas
from router.model.record_kind import Change
from router.model.topology import Topology


def record(change: Change) -> str:
    """Return a record in words."""
    return in_words(bus.pack(for_replicas(change)))


def in_words(packed: bytes) -> str:
    """Return a packed record in words."""
    return repr(bus.unpack(packed))


def records(topology: Topology) -> set[bytes]:
    """Return all records of a topology, packed: words take three times as long."""
    return {bus.pack(for_replicas(change)) for change in topology.changes()}
