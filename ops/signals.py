"""The supervisor's signals, made pollable: a child has ended, the node is to stop or to reload its configuration."""

from __future__ import annotations

import signal
import socket
from contextlib import suppress
from types import FrameType
from typing import Any, Self

STOPPING = (signal.SIGTERM, signal.SIGINT)
HANDLED = (*STOPPING, signal.SIGCHLD, signal.SIGHUP)


class Signals:
    """Handlers of the signals, installed by `__enter__`: a signal leaves nothing behind that is created after it. Main
    thread only.

    `fileno` is readable after any signal; `stop` stays true from the first request to stop, `reload` until it is reset.
    """

    def __init__(self) -> None:
        self.stop = False
        self.reload = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._previous_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._catch(signal.SIGCHLD, lambda *_: None)
        for number in STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # a background job of a shell ignores Ctrl-C
                self._catch(number, self._request_stop)
        self._catch(signal.SIGHUP, self._request_reload)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)  # the supervisor before this one has blocked them
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        self._reader.close()
        self._writer.close()

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._reader.fileno()

    def drain(self) -> None:
        """Discard the bytes that made `fileno` readable."""
        with suppress(BlockingIOError):
            while self._reader.recv(4096):
                pass

    def _catch(self, number: signal.Signals, handler: Any) -> None:
        self._previous[number] = signal.signal(number, handler)

    def _request_stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stop = True

    def _request_reload(self, _number: int, _frame: FrameType | None) -> None:
        self.reload = True
