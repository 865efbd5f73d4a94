"""What the supervisor and its children tell each other of processes, each a msgpack list of its fields in one frame."""

from __future__ import annotations

from typing import Literal, NamedTuple

from penstock.bus import unpack
from penstock.node.node import Role


class ProcessMessage(NamedTuple):
    """An event about a process, published by the supervisor, or a report of a child to it.

    Events: `started`, `died`, `gone` for a place that was removed, and `replaces` for a successor that is ready: from
    now on it does the work of its predecessor, which is asked to end. Reports: `ready`; `restart`: replace the
    processes of a role; `upgrade`: replace all processes by those of the installed release; `begin` and `end`: start a
    missing shard, or end one for good. `place` is the process's index
    in its role, `pid` 0 where nobody needs it.
    """

    event: Literal["started", "died", "gone", "replaces", "ready", "restart", "upgrade", "begin", "end"]
    role: Role
    place: int
    incarnation: int
    pid: int

    @classmethod
    def read(cls, frame: bytes) -> ProcessMessage:
        """Return the message in a frame. ValueError or TypeError if there is none."""
        return cls(*unpack(frame))
