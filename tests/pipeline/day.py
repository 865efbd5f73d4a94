"""A small day of telemetry from a seed: a few queues of every sort, sampled every ten seconds for twenty minutes.

Rows are as a node writes them, dicts with every column of their table. No broker produced them: rates, depths and stops
only have to be consistent, and of every kind that the jobs distinguish.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.telemetry.schema import TABLES

Row = dict[str, Any]

SINCE = 1_795_172_400_000_000
"""2026-11-20 11:00 UTC, in µs since 1970."""
STEP_US = 10_000_000
STEPS = 120
UNTIL = SINCE + STEPS * STEP_US
EPOCH = SINCE - 86_400_000_000
NODE = "node-1"
SORTS = ("steady", "slow", "stuck", "alone", "hostile", "looping", "bursty", "growing", "bytes", "free")
SHARDS = 4
HEADER = 700
"""Bytes of a message besides its body."""
USERS = (("ann", "pika"), ("ben", "py-amqp"), ("cas", None), ("dan", "Bunny"))


@dataclass
class Day:
    """Rows of each table, in order of time."""

    since: int = SINCE
    until: int = UNTIL
    depth: list[Row] = field(default_factory=list)
    flow: list[Row] = field(default_factory=list)
    shard: list[Row] = field(default_factory=list)
    connection: list[Row] = field(default_factory=list)
    placement: list[Row] = field(default_factory=list)

    def add(self, table: str, ts: int, writer: str, **facts: Any) -> None:
        """Add a row; unnamed columns are null. `seq` counts by writer."""
        rows: list[Row] = getattr(self, table)
        seq = 1 + sum(row["writer"] == writer for row in rows[-1:]) * (rows[-1]["seq"] if rows else 0)
        if rows and rows[-1]["writer"] != writer:
            seq = 1 + max((row["seq"] for row in rows if row["writer"] == writer), default=0)
        common = {"v": 1, "ts": ts, "node": NODE, "epoch": EPOCH, "writer": writer, "seq": seq, "rows_lost": 0}
        row = dict.fromkeys(column.name for column in TABLES[table].columns)
        unknown = facts.keys() - row.keys()
        assert not unknown, f"{table} has no {unknown}"
        rows.append({**row, **common, **facts})


def made(seed: int) -> Day:
    """Return the day of a seed."""
    random = Random(seed)
    day = Day()
    for number, (user, product) in enumerate(USERS):
        day.add(
            *("connection", SINCE + number, f"acceptor.{number % 2}.1"),
            event="open",
            acceptor=number % 2,
            connection=f"{number % 2}.1.{number}",
            peer="127.0.0.1:1",
            product=product,
            product_version=f"1.{number}" if product else None,
            user=user,
            vhost="/",
            channels=0,
        )
    kinds = [(sort, copy) for sort in SORTS for copy in range(2)]
    queues = [_Queue(random, f"{sort}-{copy}", sort, channel) for channel, (sort, copy) in enumerate(kinds, 1)]
    for step in range(STEPS):
        ts = SINCE + step * STEP_US + random.randrange(STEP_US)
        for queue in queues:
            queue.step(day, random, ts, step)
        _shards(day, random, ts)
    _oddities(day)
    day.flow.sort(key=lambda row: (row["ts"], row["seq"]))
    return day


class _Queue:
    def __init__(self, random: Random, name: str, sort: str, channel: int) -> None:
        self.name, self.sort, self.channel = name, sort, channel
        self.shard = random.randrange(SHARDS)
        self.size = random.choice((100, 1_000, 10_000))
        self.whole = self.size + HEADER
        self.rate = random.randrange(50, 400)
        self.depth = random.randrange(0, 300)
        self.stop = 0 if sort in ("free", "bytes") else random.randrange(2_000, 6_000)
        self.stop_bytes = 3_000 * self.whole if sort == "bytes" else 0
        self.last = SINCE - STEP_US
        self.epoch = 0
        self.saturated = False
        self.held: dict[int, Row] = {}

    def step(self, day: Day, random: Random, ts: int, step: int) -> None:
        if random.random() < 0.05:
            return  # a sample that was lost
        interval = (ts - self.last) // 1000
        self.last = ts
        published, delivered, acked, dropped, redelivered = self._counts(random, step)
        acked = min(acked, self.depth + published)
        self.depth += published - acked - dropped
        unacked = min(self.depth, 50) if self.sort != "alone" else 0
        was = self.saturated
        nbytes = self.depth * self.whole
        over = (self.stop and self.depth > self.stop) or (self.stop_bytes and nbytes > self.stop_bytes)
        self.saturated = bool(over) or (was and (self.depth > self.stop * 0.7 or nbytes > self.stop_bytes * 0.7))
        self.epoch += was != self.saturated
        consumers = 0 if self.sort in ("alone", "hostile") else 2
        day.add(
            *("depth", ts, "console.0.1"),
            vhost="/",
            queue=self.name,
            shard=self.shard,
            ready=self.depth - unacked,
            unacked=unacked,
            ready_bytes=(self.depth - unacked) * self.size,
            unacked_bytes=unacked * self.size,
            n_published=published,
            n_delivered=delivered,
            n_acked=acked,
            n_redelivered=redelivered,
            n_dropped=dropped,
            interval_ms=interval,
            consumers=consumers,
            stop_count=self.stop,
            resume_count=int(self.stop * 0.7),
            stop_bytes=self.stop_bytes,
            flow_epoch=self.epoch,
            resume_bytes=int(self.stop_bytes * 0.7),
            saturated=self.saturated,
            policy=None,
            published_bytes=published * self.size,
            delivered_bytes=delivered * self.size,
            whole_bytes=nbytes,
        )
        if self.saturated and not was:
            self._hold(day, random, ts)
        elif was and not self.saturated:
            self._let_go(day, random, ts)

    def _counts(self, random: Random, step: int) -> tuple[int, int, int, int, int]:
        came = 0 if self.saturated else int(self.rate * random.uniform(0.5, 1.5))
        able = {
            "steady": int(self.rate * 1.6),
            "slow": int(self.rate * 0.6),
            "stuck": int(self.rate * 1.5) if step % 60 < 30 else 0,
            "bursty": int(self.rate * 1.4),
            "growing": int(self.rate * 0.95),
            "bytes": int(self.rate * 0.5),
            "free": self.rate * 2,
            "looping": 0,
        }.get(self.sort, 0)
        if self.sort == "bursty" and step % 40 < 4:
            came = 0 if self.saturated else self.rate * 12
        dropped = random.randrange(20) if self.sort == "hostile" and self.depth > 100 else 0
        delivered = able if self.sort != "looping" else 400
        return came, delivered, able, dropped, 300 if self.sort == "looping" else 0

    def _hold(self, day: Day, random: Random, ts: int) -> None:
        for number in sorted(random.sample(range(len(USERS)), 2)):
            cause = "bytes" if self.stop_bytes else "count"
            facts = self._session(number) | {"action": "stop", "cause": cause, "depth": self.depth}
            facts |= {"mark": self.stop or self.stop_bytes, "flow_epoch": self.epoch}
            day.add("flow", ts + number, f"acceptor.{number % 2}.1", **facts)
            self.held[number] = {"since": ts + number, "cause": cause, "mark": facts["mark"]}

    def _let_go(self, day: Day, random: Random, ts: int) -> None:
        for number, stop in self.held.items():
            results = random.choice(("flow", "blocked", "none"))
            after = random.randrange(30)
            facts = self._session(number) | {"action": "resume", "cause": stop["cause"], "mark": stop["mark"]}
            facts |= {
                "stopped_ms": (ts + number - stop["since"]) // 1000,
                "peak_depth": self.stop + random.randrange(90),
            }
            facts |= {"parked": random.randrange(50), "after_stop": after, "notified_by": results, "outcome": "free"}
            facts |= {"obeyed": None if results != "flow" else after == 0}
            day.add("flow", ts + number, f"acceptor.{number % 2}.1", **facts)
        self.held.clear()

    def _session(self, number: int) -> Row:
        user, product = USERS[number]
        return {
            "vhost": "/",
            "queue": self.name,
            "shard": self.shard,
            "acceptor": number % 2,
            "user": user,
            "connection": f"{number % 2}.1.{number}",
            "channel": self.channel,
            "product": product,
            "reason": f"queue '{self.name}' is full",
        }


def _shards(day: Day, random: Random, ts: int) -> None:
    for shard in range(SHARDS):
        load = 900 if shard == 1 else 200
        moved = int(load * random.uniform(0.7, 1.3))
        day.add(
            *("shard", ts, "console.0.1"),
            shard=shard,
            pid=100 + shard,
            incarnation=1,
            cpu=random.random(),
            rss=50_000_000,
            loop_lag_p50_us=100,
            loop_lag_p99_us=random.choice((300, 200_000 if shard == 2 else 400)),
            msgs_in=moved,
            msgs_out=moved - random.randrange(50),
            bytes_in=moved * 100,
            bytes_out=moved * 90,
            interval_ms=10_000,
            queues=5,
            ready=10,
            unacked=1,
            commit_us_p99=random.choice((None, 800, 1_200)),
            store_used=random.randrange(1_000_000),
            store_limit=2_000_000,
            memory_used=random.randrange(500),
            memory_limit=1_000,
            saturated=shard == 3 and random.random() < 0.1,
        )


def _oddities(day: Day) -> None:
    """Add rare rows: a resume that was lost, an acceptor that died, a stop that no single queue caused."""
    session = {"vhost": "/", "acceptor": 0, "connection": "0.1.9", "channel": 9, "user": "eve", "product": "odd"}
    stop = {**session, "action": "stop", "cause": "memory", "reason": "memory", "shard": 1}
    middle = (SINCE + UNTIL) // 2
    day.add("flow", SINCE + 1_000_000, "acceptor.0.1", **stop)
    day.add("flow", SINCE + 9_000_000, "acceptor.0.1", **stop)
    resume = {"action": "resume", "stopped_ms": 5_000, "parked": 3, "after_stop": 2, "notified_by": "none"}
    day.add("flow", SINCE + 14_000_000, "acceptor.0.1", **{**stop, **resume, "outcome": "closed"})
    gone = {**stop, "acceptor": 7, "connection": "7.1.1"}
    day.add("flow", middle, "acceptor.7.1", **gone)
    day.add("flow", middle + 60_000_000, "acceptor.7.2", **{**gone, "connection": "7.2.1"})
    park = {**stop, "action": "park", "connection": "0.1.0", "channel": 1}
    day.add("flow", middle + 1, "acceptor.0.1", **park)
