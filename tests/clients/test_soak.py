"""Ten minutes of producers ten times as fast as their consumers, on a hundred queues with a mix of arguments.

Consumers are killed at random. `SOAK_SECONDS` sets another duration.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from penstock.client import ProducerError
from penstock.client.aio import AsyncProducer
from tests.broker import Broker
from tests.producers import STAMP
from tests.raw import Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.alone]

SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
QUEUES = 100
RATE = 4.0
"""Messages per second that a consumer takes; its producer offers ten times as many."""
FASTER = 10
SIZE = 256
PREFETCH = 20
KILLS_A_SECOND = 1.0
RING = 100
KEY = "key"
KEYS = 50
MIB = 1 << 20
DRAIN_SECONDS = 240.0
WAITING = 512
"""The cost in bytes of a message that waits in a queue, in memory and in pages of the store: the backlog of queues that
spill grows.
"""

KINDS: list[dict[str, Any]] = [
    {"x-max-length": 100, "x-overflow": "flow"},
    {"x-flow-stop-count": 80, "x-flow-resume-count": 40},
    {"x-flow-stop-size": 100 * SIZE, "x-flow-resume-size": 50 * SIZE},
    {"x-max-length": 100, "x-overflow": "flow", "x-max-priority": 5},
    {"x-max-length": 200, "x-overflow": "reject-publish"},
    {"x-max-length-bytes": 64 * 1024, "x-overflow": "spill"},
    {"x-pace-depth": 60},
    {"x-flow-stop-count": 100, "x-fair-by": "key"},
    {"x-flow-stop-count": 100, "x-hold": "park 2 s, reject"},
    {"x-flow-stop-count": 100, "x-throttle": "confirms, park"},
    {"x-max-length": RING, "x-overflow": "ring"},
    {"x-overflow": "last-value", "x-last-value-key": KEY},
]


def arguments_of(number: int) -> dict[str, Any]:
    return KINDS[number % len(KINDS)]


def kept(kind: dict[str, Any], confirmed: set[int]) -> set[int]:
    """Return the confirmed messages that must arrive: all, or the newest ones of a ring or of each key."""
    if kind.get("x-overflow") == "ring":
        return set(sorted(confirmed)[-RING:])
    if KEY in kind.values():
        return set({number % KEYS: number for number in sorted(confirmed)}.values())
    return confirmed


class Supply:
    """A producer at its rate, as far as the broker allows, with its confirmed messages and the number refused."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.confirmed: set[int] = set()
        self.refused = 0
        self.sent = 0

    async def run(self, url: str, until: float) -> None:
        async with AsyncProducer(url, window_count=100) as producer:
            began = time.monotonic()
            while (now := time.monotonic()) < until:
                if self.sent >= (now - began) * RATE * FASTER:
                    await asyncio.sleep(0.05)
                    continue
                body = STAMP.pack(0, self.sent).ljust(SIZE)
                try:
                    headers = {"headers": {KEY: self.sent % KEYS}}
                    receipt = await producer.send(body, self.queue, properties=headers, timeout=max(until - now, 0.01))
                except ProducerError:
                    continue
                assert receipt is not None
                receipt.add_done_callback(self._note(self.sent))
                self.sent += 1
            await producer.flush(DRAIN_SECONDS)

    def _note(self, number: int) -> Any:
        def note(receipt: asyncio.Future[str]) -> None:
            if receipt.exception() is None:
                self.confirmed.add(number)
            else:
                self.refused += 1

        return note


class Demand:
    """A consumer that takes `RATE` messages per second, and is killed now and then with some unacked."""

    def __init__(self, broker: Broker, queue: str, seed: int) -> None:
        self.broker = broker
        self.queue = queue
        self.random = random.Random(seed)
        self.taken: Counter[int] = Counter()
        self.wanted = self.missed = self.kills = 0
        self.done = threading.Event()
        self.in_haste = threading.Event()
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            while not self.done.is_set():
                with Client.connect(self.broker.address) as client:
                    self._live(client, time.monotonic() + self.random.expovariate(KILLS_A_SECOND / QUEUES))
        except BaseException as error:
            self.error = error

    def _live(self, client: Client, until: float) -> None:
        channel = client.channel()
        channel.call("basic.qos", prefetch_count=PREFETCH)
        channel.call("basic.consume", queue=self.queue)
        self._take(channel, 20.0)
        due = time.monotonic()
        while not self.done.is_set():
            if self.in_haste.is_set():
                self._take(channel, 0.2)
                continue
            if time.monotonic() > until:
                channel.call("basic.qos", prefetch_count=PREFETCH)  # all acks are in
                client.socket.close()
                self.kills += 1
                return
            due += 1 / RATE
            self.done.wait(max(due - time.monotonic(), 0))
            self.wanted += 1
            self.missed += not self._take(channel, 0.1)

    def _take(self, channel: Channel, seconds: float) -> bool:
        try:
            event = channel.take("basic.deliver", timeout=seconds)
        except TimeoutError:
            return False
        self.taken[STAMP.unpack_from(event.body)[1]] += 1
        channel.send("basic.ack", delivery_tag=event.delivery_tag)
        return True


@pytest.mark.timeout(SECONDS + 2 * DRAIN_SECONDS + 120)
def test_soak(tmp_path: Path) -> None:
    with Broker(tmp_path, acceptors=2, shards=2) as broker:
        with Client.connect(broker.address) as client:
            channel = client.channel()
            for number in range(QUEUES):
                channel.call("queue.declare", queue=f"q{number}", durable=True, arguments=arguments_of(number))
        demands = [Demand(broker, f"q{number}", number) for number in range(QUEUES)]
        memory: list[int] = []
        try:
            supplies = run(broker, demands, memory)
        finally:
            for demand in demands:
                demand.done.set()
            for demand in demands:
                demand.thread.join(30)
        assert not [demand.error for demand in demands if demand.error]
        check(supplies, demands, memory)


def supply(url: str, queues: list[str], seconds: float) -> list[Supply]:
    """Run all producers, in a process of their own; return them with the outcomes of their messages."""

    async def run() -> list[Supply]:
        supplies = [Supply(queue) for queue in queues]
        until = time.monotonic() + seconds
        await asyncio.gather(*(each.run(url, until) for each in supplies))
        return supplies

    return asyncio.run(run())


def run(broker: Broker, demands: list[Demand], memory: list[int]) -> list[Supply]:
    """Run producers and consumers for the time, then the consumers at full speed until all queues are empty."""
    until = time.monotonic() + SECONDS
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        supplies = pool.submit(supply, broker.address.url, [demand.queue for demand in demands], SECONDS)
        while time.monotonic() < until:
            time.sleep(SECONDS / 20)
            memory.append(broker.pss() - WAITING * sum(queue.ready for queue in broker.queues()))
        for demand in demands:
            demand.in_haste.set()
        found = supplies.result(DRAIN_SECONDS)
    wait_for(lambda: not any(queue.ready + queue.unacked for queue in broker.queues()), DRAIN_SECONDS, "all of it")
    return found


def check(supplies: list[Supply], demands: list[Demand], memory: list[int]) -> None:
    for number, (supply, demand) in enumerate(zip(supplies, demands, strict=True)):
        kind = arguments_of(number)
        missing = kept(kind, supply.confirmed) - demand.taken.keys()
        twice = [each for each, times in demand.taken.items() if times > 1]
        assert not missing, f"{kind}: confirmed and never delivered: {sorted(missing)[:5]} of {len(supply.confirmed)}"
        assert not twice, f"{kind}: delivered and acknowledged twice: {twice[:5]}"
    assert sum(demand.kills for demand in demands) >= SECONDS * KILLS_A_SECOND / 4
    idle: Counter[str] = Counter()
    for number, demand in enumerate(demands):
        idle[str(arguments_of(number))] += demand.missed
    wanted = sum(demand.wanted for demand in demands)
    settled = memory[len(memory) // 4 :]
    print(figures(supplies, demands, idle, memory))  # shown with -s
    assert idle.total() <= wanted / 100, f"of {wanted} times consumers had nothing to do: {idle.most_common()}"
    assert max(settled[len(settled) // 2 :]) - min(settled[: len(settled) // 2]) < 40 * MIB, memory


def figures(supplies: list[Supply], demands: list[Demand], idle: Counter[str], memory: list[int]) -> str:
    """Return the run in numbers, with the broker's memory less that of waiting messages, in MiB, over time."""
    sums = {
        "sent": sum(supply.sent for supply in supplies),
        "confirmed": sum(len(supply.confirmed) for supply in supplies),
        "refused": sum(supply.refused for supply in supplies),
        "taken": sum(demand.taken.total() for demand in demands),
        "consumers killed": sum(demand.kills for demand in demands),
        "times idle": idle.total(),
        "of": sum(demand.wanted for demand in demands),
    }
    return f"{', '.join(f'{name} {value:,}' for name, value in sums.items())}, MiB {[each // MIB for each in memory]}"
