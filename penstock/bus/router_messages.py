"""What acceptors, shards and the console exchange with the router, each a msgpack list of its fields in one frame.

A request is answered by a reply with its number. Every turn of the router that changes something publishes the changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class RouterRequest(NamedTuple):
    """An operation to be carried out (`router.authority.operations`), with arguments by name."""

    number: int
    operation: str
    arguments: dict[str, Any]


class RouterReply(NamedTuple):
    """The result of a request, or an error as reply code and text; `version` is that of the topology after it."""

    number: int
    version: int
    result: Any
    error: list[Any] | None


class Published(NamedTuple):
    """The changes that lead to a version of the topology; None if the router is at that version, and published the
    changes before.
    """

    version: int
    changes: list[Any] | None
