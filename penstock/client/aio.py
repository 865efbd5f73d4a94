"""The producer for asyncio, on aio-pika."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from penstock.client.core import INNOCENT, Core, Metrics, log, report_commands, resolve
from penstock.client.errors import Closed, ConnectionLost, TimedOut
from penstock.client.extra import needs_extra
from penstock.client.options import OnFull, Options
from penstock.client.outbox import Message

with needs_extra("client"):
    import aiormq
    from aiormq.exceptions import DeliveryError, PublishError
    from yarl import URL

    from penstock.client.aio_link import AioLink, check, refused

CLOSE_SECONDS: Final = 5.0


class AsyncProducer:
    """A `penstock.client.Producer` with coroutines: `async with AsyncProducer(url) as producer`.

    It belongs to one event loop. Waiting senders are served in order of arrival.
    """

    def __init__(self, url: str = "amqp://guest:guest@127.0.0.1:5672/", **options: Any) -> None:
        """Create a producer with `Options`; `open`, or entering it, connects."""
        self.options = Options(**options)
        self._url = url
        parsed = URL(url)
        self._core = Core(
            self.options.window_count,
            self.options.window_bytes,
            self.options.report_seconds,
            f"{parsed.host}:{parsed.port or 5672}",
            time.monotonic(),
        )
        self._ended: Exception | None = None
        self._link: AioLink | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._publishing: set[asyncio.Task[None]] = set()
        self._waiters: list[_Waiter] = []

    async def open(self) -> None:
        """Connect. ConnectionLost if there is no connection in time or the broker refuses it."""
        self._keeper = asyncio.create_task(self._keep())
        try:
            await self._wait(lambda: "connection" not in self._core.holding, self.options.connect_seconds)
        except TimedOut as late:
            await self.close(0)
            raise ConnectionLost(str(late)) from None
        except ConnectionLost:
            await self.close(0)
            raise

    async def send(
        self,
        body: bytes,
        routing_key: str = "",
        *,
        exchange: str = "",
        properties: Mapping[str, Any] | None = None,
        mandatory: bool = True,
        on_full: OnFull = "block",
        timeout: float | None = None,
    ) -> asyncio.Future[str] | None:
        """As `Producer.send`; returns a future for the confirm once the message is on its way."""
        check(exchange, routing_key, dict(properties or {}))
        self._raise_if_ended()
        if self._core.holding or self._waiters:
            if on_full == "drop":
                self._core.counts["dropped"] += 1
                return None
            if on_full == "raise":
                raise self._core.full()
            await self._wait(lambda: not self._core.holding, timeout)
        receipt: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        receipt.add_done_callback(_ignore_error)
        self._core.accept(body, exchange, routing_key, properties, mandatory, receipt, time.monotonic())
        self._turn()
        return receipt

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until all sent messages are settled, confirmed or not. TimedOut if that takes longer."""
        await self._wait(lambda: not len(self._core.outbox), timeout)

    def metrics(self) -> Metrics:
        """The counters, as of now."""
        return self._core.metrics(time.monotonic())

    async def close(self, timeout: float | None = None) -> None:
        """Wait for confirms, at most `timeout` seconds, and close the connection; remaining messages end as Closed.

        The default of `timeout` is the option `close_seconds`.
        """
        await self._close(timeout)

    async def _close(self, timeout: float | None) -> TimedOut | None:
        """Close; return the error if not all messages were confirmed in time."""
        late = None
        if self._ended is None:
            try:
                waited = self.options.close_seconds if timeout is None else timeout
                await self._wait(lambda: not len(self._core.outbox), waited)
            except (TimedOut, ConnectionLost) as left:
                log.info("closed before all was confirmed: %s", left)
                late = left if isinstance(left, TimedOut) else None
        self._ended = self._ended or Closed("the producer is closed")
        if self._keeper:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        for task in self._publishing:
            task.cancel()
        self._core.give_up(Closed("the producer was closed"), time.monotonic())
        self._turn()
        return late

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """As `close`, without waiting after an error. TimedOut if not all was confirmed within `close_seconds`."""
        late = await self._close(None if kind is None else 0)
        if late is not None and kind is None:
            raise late

    def flow(self, active: bool) -> None:
        """Handle Channel.Flow; for the link."""
        self._core.flow(active, time.monotonic())
        self._turn()

    def blocked(self, reason: str) -> None:
        """Handle connection.blocked; for the link."""
        self._core.blocked(reason, time.monotonic())
        self._turn()

    def unblocked(self) -> None:
        """Handle connection.unblocked; for the link."""
        self._core.unblocked(time.monotonic())
        self._turn()

    def _raise_if_ended(self) -> None:
        if self._ended is not None:
            raise type(self._ended)(str(self._ended))

    async def _wait(self, ready: Callable[[], bool], seconds: float | None) -> None:
        """Wait in line until `ready`, logging the cause now and then. TimedOut, or the error that ended
        the producer.
        """
        begun = time.monotonic()
        waiter = _Waiter(ready)
        self._waiters.append(waiter)
        self._core.waiting[waiter] = begun
        try:
            while True:
                waiter.turn.clear()
                self._turn()
                self._raise_if_ended()
                if waiter.turn.is_set():
                    return
                now = time.monotonic()
                left = self.options.report_seconds if seconds is None else begun + seconds - now
                if left <= 0:
                    self._core.counts["timed_out"] += 1
                    raise TimedOut(f"after {now - begun:.1f} s: {self._core.why()}")
                self._core.log_waiting(now)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(waiter.turn.wait(), min(left, self.options.report_seconds))
        finally:
            del self._core.waiting[waiter]
            self._waiters.remove(waiter)
            self._turn()

    def _turn(self) -> None:
        """Publish due messages, resolve receipts, report flow commands, and wake the first waiter that can go on."""
        if self._link:
            for tag, message in self._core.due():
                task = asyncio.create_task(self._publish(self._link, tag, message))
                self._publishing.add(task)
                task.add_done_callback(self._publishing.discard)
        outcomes, self._core.outcomes = self._core.outcomes, []
        resolve(outcomes)
        commands, self._core.commands = self._core.commands, []
        report_commands(self.options.on_flow, commands)
        for waiter in self._waiters:
            if self._ended is not None:
                waiter.turn.set()
            elif waiter.ready():
                waiter.turn.set()
                break

    async def _publish(self, link: AioLink, tag: int, message: Message) -> None:
        taken = True
        try:
            await link.publish(message)
        except PublishError as returned:
            frame: Any = returned.frame
            headers: dict[str, object] = dict((returned.message and returned.message.header.properties.headers) or {})
            if link is self._link:
                self._core.returned(
                    message.message_id, frame.reply_code, frame.reply_text, frame.exchange, frame.routing_key, headers
                )
        except DeliveryError:
            taken = False
        except (aiormq.AMQPError, OSError, asyncio.CancelledError):
            return  # the connection is lost: the message will be resent
        if link is self._link:
            self._core.settled(tag, False, taken, time.monotonic())
            self._turn()

    async def _keep(self) -> None:
        """Keep a connection up for as long as the producer lives."""
        attempt, down_since = 0, time.monotonic()
        while self._ended is None:
            link = AioLink(self._url, self.options.name, self)
            try:
                try:
                    await link.open(self.options.connect_seconds)
                except (aiormq.AMQPError, OSError, RuntimeError) as error:
                    code, text = 0, f"{type(error).__name__}: {error}"
                    if refused(error) and not self._core.counts["connections"]:
                        self._end(text)
                        return
                else:
                    code, text, proven = await self._serve(link)
                    attempt, down_since = 0 if proven else attempt, time.monotonic()
                self._link = None
                self._core.disconnected(code, text, time.monotonic())
                self._turn()
            finally:
                self._link = None
                with contextlib.suppress(asyncio.CancelledError):
                    await link.close(CLOSE_SECONDS)
            limit = self.options.give_up_seconds
            if limit is not None and time.monotonic() - down_since > limit:
                self._end(f"no connection for {limit:g} s")
                return
            if code in INNOCENT:
                await asyncio.sleep(self.options.delay(attempt))
                attempt += 1

    async def _serve(self, link: AioLink) -> tuple[int, str, bool]:
        """Serve a link until it is lost; return the broker's reply code and text, and whether any message
        was settled.
        """
        self._link = link
        settled = self._core.settled_count
        self._core.connected(time.monotonic())
        self._turn()
        code, text = await link.lost
        return code, text, self._core.settled_count > settled

    def _end(self, text: str) -> None:
        self._ended = ConnectionLost(f"{self._core.target}: {text}")
        self._core.give_up(ConnectionLost(str(self._ended)), time.monotonic())
        self._turn()


class _Waiter:
    """A waiting caller, and the event of its turn to check again."""

    def __init__(self, ready: Callable[[], bool]) -> None:
        self.ready = ready
        self.turn = asyncio.Event()


def _ignore_error(receipt: asyncio.Future[str]) -> None:
    """Mark a receipt's exception as retrieved: an error of an ignored receipt appears in log and metrics only."""
    if not receipt.cancelled():
        receipt.exception()
