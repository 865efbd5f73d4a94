"""What the supervisor tells systemd, in datagrams to the socket that a unit of `Type=notify` names (sd_notify(3)).

Where the unit asks for signs of life (`WatchdogSec=`), only a turn of the supervisor's own loop gives one: when that
hangs systemd ends the node, and starts it again if the unit says so.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

from penstock.node.logs import get_logger

PARTS = 4
"""Signs of life are given so many times as often as the unit asks for."""

PATIENCE_SECONDS = 1.0
"""How long a manager that is busy is waited for, with what is said once."""

log = get_logger()


class Notifier:
    """The service manager of this process, if it has one. The environment is cleared: children have nothing to tell.

    `every` is how often it wants a sign of life, in seconds, None if it wants none.
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        path = environment.pop("NOTIFY_SOCKET", "")
        wanted, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        self._address = f"\0{path[1:]}" if path.startswith("@") else path
        self.every: float | None = None
        self._due = 0.0
        self._serves = False
        if self._address and wanted.isdecimal() and int(wanted) and pid in ("", str(os.getpid())):
            self.every = int(wanted) / 1e6 / PARTS

    def ready(self) -> None:
        self._serves = True
        self._send("READY=1\nSTATUS=serving", PATIENCE_SECONDS)

    def starts(self, status: str, patience: float) -> None:
        """It is not ready yet, and moves: it may take so many seconds more, whatever the unit says."""
        self._send(f"STATUS={status}\nEXTEND_TIMEOUT_USEC={int(patience * 1e6)}", 0)

    def stopping(self) -> None:
        self._send("STOPPING=1", PATIENCE_SECONDS)

    def lives(self, now: float) -> None:
        """A turn of the loop, at that time (seconds). Before the node serves nobody asks for it."""
        if self.every is not None and self._serves and now >= self._due:
            self._due = now + self.every
            self._send("WATCHDOG=1", 0)

    def _send(self, state: str, patience: float) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.settimeout(patience)
            try:
                manager.sendto(state.encode(), self._address)
            except OSError as error:
                log.warning("the service manager cannot be told", state=state, problem=str(error))
