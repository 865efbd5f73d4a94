"""The shell of relays: two connections for each, all on one loop, timers and signals."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from pika.adapters.select_connection import IOLoop

from ops.relay.core import Relay
from ops.relay.ends import Source, Target
from ops.relay.events import Report, SourceEvents, TargetEvents
from ops.relay.feed import Feed
from penstock.client.options import Options

RECOUNT_SECONDS: Final = 0.5
"""Between two questions for the number of ready messages, while none is delivered."""
CONFIRM_SECONDS: Final = 5.0
"""How long a relay that stops waits for the confirms of published messages: a full queue may withhold them for ever."""


class QueueOf(NamedTuple):
    """A queue, and pika's parameters of its broker."""

    parameters: Any
    queue: str


@dataclass(frozen=True, slots=True)
class Places:
    """From where to where: a queue of a broker, or a feed; a broker, and a queue or an exchange that it must have, if
    any. Brokers are pika's parameters.
    """

    source: QueueOf | Feed
    target: Any
    target_queue: str | None = None
    target_exchange: str | None = None


class Host(Protocol):
    """The owner of shells, as they know it. `patient`: whether a first connection may take more than one attempt."""

    loop: Any
    patient: bool

    def report(self, line: str) -> None: ...
    def progress(self) -> None: ...
    def ended(self, shell: Shell) -> None: ...


class Shells:
    """Relays in one thread, run once."""

    patient = False

    def __init__(self, report: Report, progress: Callable[[], None]) -> None:
        """`report` gets lines for people: losses of connections; `progress` is called when something has happened."""
        self.loop: Any = IOLoop()
        self._report = report
        self._progress = progress
        self._running: list[Shell] = []

    def add(self, core: Relay, places: Places, prefetch: int) -> None:
        """Add a relay."""
        self._running.append(Shell(self, core, places, prefetch))

    def run(self) -> None:
        """Relay until all cores have ended. Ctrl-C and SIGTERM stop them; at the second one they end at once."""
        with _on_signals(lambda: self.loop.add_callback_threadsafe(self._stop)):
            for shell in self._running:
                shell.start()
            self.loop.start()
        self.loop.close()

    def report(self, line: str) -> None:
        """Report a loss of a connection."""
        self._report(line)

    def progress(self) -> None:
        """Report that something has happened."""
        self._progress()

    def ended(self, shell: Shell) -> None:
        """Handle the end of both connections of a relay."""
        self._running.remove(shell)
        if not self._running:
            self.loop.stop()

    def _stop(self) -> None:
        for shell in list(self._running):
            shell.stop()


class Shell:
    """The shell of one relay."""

    def __init__(self, host: Host, core: Relay, places: Places, prefetch: int) -> None:
        options = Options(reconnect_seconds=5.0)
        self.core = core
        self.loop: Any = host.loop
        self.patient = host.patient
        self.source_up = False
        self._host = host
        self.source = self._source_of(places.source, options, prefetch)
        needs_place = host.patient or places.target_queue is not None
        events = TargetEvents(self, _address(places.target), host.report, needs_place)
        self.target = Target(places.target, options, events, self.loop, places.target_queue, places.target_exchange)
        self._asked: set[str] = set()
        self._timer: object = None
        self._recounting = self._stopping = self._closing = False
        self._connections = 2

    def _source_of(self, source: QueueOf | Feed, options: Options, prefetch: int) -> Source | Feed:
        report = self._host.report
        if isinstance(source, Feed):
            source.attach(self.loop, SourceEvents(self, "", report))
            return source
        events = SourceEvents(self, _address(source.parameters), report)
        return Source(source.parameters, options, events, self.loop, source.queue, prefetch)

    def start(self) -> None:
        """Connect to both sides, once the loop runs."""
        self.source.start()
        self.target.start()

    def stop(self) -> None:
        """Stop the core, or end it if it stops already."""
        self.core.interrupt()
        self.turn()

    def turn(self) -> None:
        """Do all that the core wants done. Nothing is sent on connections that are being closed."""
        if self._closing:
            return
        core, now = self.core, time.monotonic()
        for delivery, destination in core.due(now):
            self.target.relay(delivery, destination)
        acks, core.acks = core.acks, []
        for tag in acks:
            self.source.ack(tag)
        for name in core.questions:
            self._find_exchange(name)
        self._host.progress()
        if core.ending is not None:
            self._close()
            return
        if core.stopping and not self._stopping:
            self._stopping = True
            self.loop.call_later(CONFIRM_SECONDS, self._give_up)
        self._wait(core.next_at(now), now)
        if core.idle and self.source_up and not core.follow:
            self._recount()

    def _wait(self, at: float | None, now: float) -> None:
        if self._timer is not None:
            self.loop.remove_timeout(self._timer)
        self._timer = None if at is None else self.loop.call_later(at - now, self._timed)

    def _timed(self) -> None:
        self._timer = None
        self.turn()

    def _recount(self) -> None:
        """Ask for the number of ready messages, unless that is asked already."""
        if not self._recounting:
            self._recounting = True
            self.source.count(self._counted)

    def _counted(self, ready: int) -> None:
        self.core.counted(ready)
        if self.core.ending is not None:
            self.turn()
            return
        self.loop.call_later(RECOUNT_SECONDS, self._count_again)

    def _count_again(self) -> None:
        self._recounting = False
        self.turn()

    def source_lost(self) -> None:
        """Forget what the source was asked."""
        self.source_up = self._recounting = False

    def _find_exchange(self, name: str) -> None:
        if name in self._asked:
            return
        self._asked.add(name)

        def found(exists: bool) -> None:
            self.core.exchange_found(name, exists)
            self.turn()

        self.target.find_exchange(name, found)

    def target_lost(self) -> None:
        """Forget what the target was asked."""
        self._asked.clear()

    def _give_up(self) -> None:
        self.core.give_up()
        self.turn()

    def _close(self) -> None:
        if not self._closing:
            self._closing = True
            self.source.close()
            self.target.close()

    def ended(self) -> None:
        """Handle the end of one of both connections, after it was closed."""
        self._connections -= 1
        if not self._connections:
            self._host.ended(self)


def _address(parameters: Any) -> str:
    return f"{parameters.host}:{parameters.port}"


@contextmanager
def _on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on SIGINT and SIGTERM for the context. Only the main thread may do so."""
    before = {each: signal.signal(each, lambda *_: stop()) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
