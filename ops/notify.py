"""The supervisor's notifications to systemd: datagrams to the socket of a unit of `Type=notify` (sd_notify(3)).

If the unit asks for keep-alives (`WatchdogSec=`), only turns of the supervisor's own loop send them: when the loop
hangs, systemd ends the node, and restarts it if the unit says so.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

from penstock.node.logs import get_logger

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
PARTS = 4
"""Keep-alives are sent this many times as often as the unit requires."""

PATIENCE_SECONDS = 1.0
"""How long a notification that is sent only once waits for a busy manager."""

log = get_logger()


class Notifier:
    """The service manager of this process, if it has one. Its variables leave the environment: children do not notify.

    `variables` are these; `every` is the interval of keep-alives in seconds, None if the manager asks for none.
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        self.variables = {name: environment.pop(name) for name in VARIABLES if name in environment}
        path, wanted, pid = (self.variables.get(name, "") for name in VARIABLES)
        self._address = f"\0{path[1:]}" if path.startswith("@") else path
        self.every: float | None = None
        self._due = 0.0
        self._serves = False
        if self._address and wanted.isdecimal() and int(wanted) and pid in ("", str(os.getpid())):
            self.every = int(wanted) / 1e6 / PARTS

    def report_ready(self) -> None:
        """Report that the node serves."""
        self._serves = True
        self._send("READY=1\nSTATUS=serving", PATIENCE_SECONDS)

    def go_on(self) -> None:
        """The node serves already, and that is reported."""
        self._serves = True

    def report_starting(self, status: str, patience: float) -> None:
        """Report progress of a start, and extend the unit's timeout to `patience` seconds from here."""
        self._send(f"STATUS={status}\nEXTEND_TIMEOUT_USEC={int(patience * 1e6)}", 0)

    def report_stopping(self) -> None:
        """Report that the node stops."""
        self._send("STOPPING=1", PATIENCE_SECONDS)

    def keep_alive(self, now: float) -> None:
        """Send a keep-alive if one is due at `now`, in seconds. systemd expects none before the node serves."""
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
                log.warning("cannot notify the service manager", state=state, problem=str(error))
