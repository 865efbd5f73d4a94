"""The operator of the node: its own user, or root, over the console's Unix socket, which asks for no login.

An operator has all rights, as with the commands of `penstock`, and needs no user of the broker for it: nothing that is
set for those binds it. The audit log names the process and its user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from uvicorn import Config
from uvicorn.server import ServerState

from console.broker import Broker, Facts
from console.http.caller import ADMINISTRATOR, Caller
from console.http.connection import Connection
from console.http.crowd import Crowd
from penstock.control.audit import Administrator, Audit
from penstock.node.logs import get_logger
from router.model.users import Right

log = get_logger()

HOST = "localhost"


@dataclass(frozen=True, slots=True)
class Operator(Caller):
    """The operator, as the caller of a request; `user` is the name of the process's user."""

    administrator: Administrator = field(kw_only=True)

    @classmethod
    def of(cls, broker: Broker, administrator: Administrator) -> Operator:
        """Return the caller for a process."""
        return cls(broker, administrator.user, (ADMINISTRATOR,), False, HOST, administrator=administrator)

    def opens(self, vhost: str) -> bool:
        """Whether a vhost is one of its own: all are."""
        return True

    def must_have(self, vhost: str, right: Right, kind: str, name: str) -> None:
        """Check that the vhost exists: all rights are there."""
        self.must_open(vhost)

    def _as_client(self, command: str, vhost: str, **arguments: Any) -> Awaitable[Any]:
        return self.broker.command(command, user="", name="", password="", host=self.host, vhost=vhost, **arguments)

    def _record(self, command: str, arguments: Facts, outcome: str) -> None:
        self.broker.audit.record(self.administrator, command, arguments, outcome)


class OperatorConnection(Connection):
    """A connection to the console's Unix socket; its requests have the process at the other end in their state."""

    def __init__(self, audit: Audit, config: Config, state: ServerState, crowd: Crowd, turns: asyncio.Lock) -> None:
        super().__init__(config, state, crowd, turns)
        self._audit = audit

    def connection_made(self, transport: Any) -> None:
        administrator = Administrator.at(transport.get_extra_info("socket"))
        self.app_state = {"operator": administrator}
        super().connection_made(transport)
        if not administrator.may_administer:
            log.warning("HTTP over the Unix socket: another user was turned away", uid=administrator.uid)
            self._audit.record(administrator, "", {}, "refused: neither the node's user nor root")
            self.hang_up()
