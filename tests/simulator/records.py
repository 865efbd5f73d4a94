"""Records of the topology in words, as replicas have them: two topologies are equal if their records are."""

from __future__ import annotations

from penstock import bus
from router.core import for_replicas
from router.model.record_kind import Change
from router.model.topology import Topology


def record(change: Change) -> str:
    """Return a record in words."""
    return repr(bus.unpack(bus.pack(for_replicas(change))))


def records(topology: Topology) -> set[str]:
    """Return all records of a topology in words."""
    return {record(change) for change in topology.changes()}
