"""Both producers behind one interface: the asyncio one runs in an event loop in a thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from penstock.client import Metrics, Producer
from penstock.client.aio import AsyncProducer


class InThread:
    """An `AsyncProducer` with the interface of a `Producer`."""

    def __init__(self, url: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        try:
            self._producer = self._run(self._made(url, options))
        except BaseException:
            self._end()
            raise

    def send(self, body: bytes, routing_key: str = "", **options: Any) -> Future[str] | None:
        """Send a message, like `Producer.send`."""

        async def send() -> Future[str] | None:
            receipt = await self._producer.send(body, routing_key, **options)
            if receipt is None:
                return None
            outcome: Future[str] = Future()
            receipt.add_done_callback(lambda done: _copy(done, outcome))
            return outcome

        return self._run(send())

    def flush(self, timeout: float | None = None) -> None:
        """Wait for outcomes, like `Producer.flush`."""
        self._run(self._producer.flush(timeout))

    def metrics(self) -> Metrics:
        """Return the metrics."""

        async def metrics() -> Metrics:
            return self._producer.metrics()

        return self._run(metrics())

    def close(self, timeout: float | None = None) -> None:
        """Close the producer and end its thread."""
        if self._thread.is_alive():
            self._run(self._producer.close(timeout))
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.close(None if kind is None else 0)

    @staticmethod
    async def _made(url: str, options: dict[str, Any]) -> AsyncProducer:
        producer = AsyncProducer(url, **options)
        await producer.open()
        return producer

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _copy(done: asyncio.Future[str], outcome: Future[str]) -> None:
    error = done.exception()
    if error:
        outcome.set_exception(error)
    else:
        outcome.set_result(done.result())


PRODUCERS = {"pika": Producer, "aio-pika": InThread}
