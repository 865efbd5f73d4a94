"""The table of all kinds of records, in the order of a snapshot: each record comes after those that it refers to."""

from __future__ import annotations

from router.model.record_kind import Record
from router.model.records import (
    Binding,
    Exchange,
    HoldOff,
    Move,
    Placement,
    Policy,
    Queue,
    Shard,
    Stop,
    Vhost,
    VhostMetadata,
)
from router.model.resource_limits import HolderLimits
from router.model.users import Permission, TopicPermission, User

KINDS: tuple[type[Record], ...] = (
    Shard,
    Vhost,
    VhostMetadata,
    Policy,
    Exchange,
    Queue,
    Binding,
    Placement,
    Move,
    User,
    Permission,
    TopicPermission,
    HolderLimits,
    Stop,
    HoldOff,
)
