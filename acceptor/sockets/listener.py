"""The node's port, as one acceptor sees it: a socket that all acceptors listen on.

The first acceptor to wake accepts a client, so no client waits for an acceptor that hangs. An acceptor with more
clients than another responsive one stands back for a moment: otherwise an idle acceptor, always the first to wake,
would get all clients.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Callable

from penstock.memory.gauges import READY, Gauges
from penstock.node.logs import get_logger
from penstock.process.pulse import BEAT_SECONDS

BACKLOG = 4096
"""Clients that may wait to be accepted, as far as the kernel allows (net.core.somaxconn)."""
ANSWERS_SECONDS = 3 * BEAT_SECONDS
"""An acceptor without a heartbeat for this long may hang."""
BACK_SECONDS = 0.002
TAKEN_MOST = 16
"""Clients that an acceptor accepts at once after it has stood back, so that it need not stand back for each."""
REST_SECONDS = 1.0
SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

log = get_logger()


class Neighbours:
    """The other acceptors of a node."""

    def __init__(self, gauges: Gauges, index: int) -> None:
        self._gauges = gauges
        self._others = [other for other in range(gauges.acceptors) if other != index]
        self._fewest: int | None = None

    def count_clients(self) -> None:
        """Record the smallest number of clients among the responsive ones."""
        now = time.monotonic()
        counts = [
            self._gauges.counters_read("acceptor", one).connections for one in self._others if self._answers(one, now)
        ]
        self._fewest = min(counts, default=None)

    def have_fewer_than(self, clients: int) -> bool:
        """Whether a responsive one had fewer clients when last polled."""
        return self._fewest is not None and self._fewest < clients

    def _answers(self, index: int, now: float) -> bool:
        place = self._gauges.process_read("acceptor", index)
        moment, _ = self._gauges.last_beat("acceptor", index, place.incarnation)
        return place.state == READY and now - moment / 1e6 < ANSWERS_SECONDS


class Listener:
    """Accepts clients from a descriptor's socket until it is closed; `make` makes their protocols.

    `stands_back` says whether another acceptor should have the next client; a client whose host `refuses` is hung up on
    at once.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        descriptor: int,
        make: Callable[[], asyncio.BaseProtocol],
        stands_back: Callable[[], bool],
        refuses: Callable[[str], bool] | None = None,
    ) -> None:
        self._loop = loop
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._make = make
        self._stands_back = stands_back
        self._refuses = refuses
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self.started = self.closed = False

    def start(self, receive_buffer: int) -> None:
        """Listen, as other acceptors may already. Each client's kernel receive buffer is `receive_buffer` bytes, 0: the
        kernel's default.
        """
        self.started = True
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if receive_buffer:
            # Accepted sockets inherit it; set later, it would not shrink a window already offered.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.listen(BACKLOG)
        self._wait()

    def close(self) -> None:
        """Accept no more clients; other acceptors still can."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _wait(self) -> None:
        self._timer = None
        self._loop.add_reader(self._socket.fileno(), self._client_waits)

    def _later(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._timer = self._loop.call_later(seconds, then)

    def _client_waits(self) -> None:
        if self._stands_back():
            self._later(BACK_SECONDS, self._take_rest)
        else:
            self._take()

    def _take_rest(self) -> None:
        self._wait()
        for _ in range(TAKEN_MOST):
            if not self._take():
                return

    def _take(self) -> bool:
        """Accept a client; False if there is none, or it cannot be accepted now."""
        try:
            client, address = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):  # another acceptor has it, or it has gone
            return False
        except OSError as error:
            if error.errno in SHORTAGES:
                log.warning("clients cannot be accepted", problem=error.strerror, retry_in=REST_SECONDS)
                self._later(REST_SECONDS, self._wait)
            else:  # the node stops
                self._loop.remove_reader(self._socket.fileno())
            return False
        if self._refuses is not None and self._refuses(address[0]):
            client.close()
            return True
        task = self._loop.create_task(self._meet(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _meet(self, client: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, client)
        except OSError:
            client.close()
