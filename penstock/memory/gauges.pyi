"""Types of the compiled `gauges.pyx`; its docstrings and `docs/gauges.md` describe them."""

from array import array
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, final

from penstock.node.node import Role

MAGIC: Final[bytes]
LAYOUT_VERSION: Final[int]
FINISHES: Final[int]
LAYOUT: Final[dict[str, dict[str, int]]]

UNSTARTED: Final[int]
STARTING: Final[int]
READY: Final[int]
DEAD: Final[int]
STATE_NAMES: Final[tuple[str, ...]]

class Process(NamedTuple):
    role: Role
    index: int  # type: ignore[assignment]  # hides the tuple's own `index`
    pid: int
    incarnation: int
    state: int
    started_us: int
    restarts: int
    torn: bool

class Counters(NamedTuple):
    connections: int
    channels: int
    held_sessions: int
    parked_bytes: int
    paused_connections: int
    published: int
    delivered: int
    confirmed: int
    loop_turns: int
    ignoring_flow: int
    rung_withhold: int
    rung_park: int
    rung_pause: int
    rung_reject: int
    rung_close_channel: int
    rung_close_connection: int
    rung_hold_off: int
    refused: int
    lost_wakeups: int
    refused_connections: int
    torn: bool

class Measures(NamedTuple):
    loop_lag_p50_us: int
    loop_lag_p99_us: int
    commit_p99_us: int
    stored_bytes: int
    torn: bool

class QueueGauge(NamedTuple):
    queue_id: int
    vhost: str
    name: str
    ready: int
    unacked: int
    ready_bytes: int
    unacked_bytes: int
    published: int
    delivered: int
    acked: int
    redelivered: int
    dropped: int
    consumers: int
    flow_epoch: int
    saturated: bool
    saturated_since_us: int
    stop_count: int
    resume_count: int
    stop_bytes: int
    resume_bytes: int
    aside: bool
    left: bool
    over_count: int
    over_bytes: int
    published_bytes: int
    delivered_bytes: int
    peak_count: int
    peak_bytes: int
    whole_bytes: int
    lent_count: int
    lent_bytes: int
    reserve: int
    since_us: int
    torn: bool
    @property
    def drained(self) -> int: ...

@final
class Gauges:
    @property
    def path(self) -> Path: ...
    @property
    def writable(self) -> bool: ...
    @property
    def epoch(self) -> int: ...
    @property
    def pid(self) -> int: ...
    @property
    def acceptors(self) -> int: ...
    @property
    def shards(self) -> int: ...
    @property
    def queues(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def processes_at(self) -> int: ...
    @property
    def sent_at(self) -> int: ...
    @property
    def taken_at(self) -> int: ...
    @property
    def safe_at(self) -> int: ...
    @property
    def doing_at(self) -> int: ...
    @property
    def buckets_at(self) -> int: ...
    @property
    def users_at(self) -> int: ...
    @property
    def claims_at(self) -> int: ...
    @property
    def queues_at(self) -> int: ...
    @property
    def names_at(self) -> int: ...
    @property
    def size(self) -> int: ...
    @staticmethod
    def create(path: str | Path, *, epoch: int, acceptors: int, shards: int, queues: int, pid: int) -> Gauges: ...
    @staticmethod
    def open(path: str | Path, *, writable: bool = True) -> Gauges: ...
    def close(self) -> None: ...
    def __enter__(self) -> Gauges: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def topology_version(self) -> int: ...
    def set_topology_version(self, version: int) -> None: ...
    def process_write(
        self, role: Role, index: int, *, pid: int, incarnation: int, state: int, started_us: int, restarts: int
    ) -> None: ...
    def process_read(self, role: Role, index: int) -> Process: ...
    def beat(self, role: Role, index: int, incarnation: int, moment: int, work: int) -> None: ...
    def last_beat(self, role: Role, index: int, incarnation: int) -> tuple[int, int]: ...
    def counters_write(
        self,
        role: Role,
        index: int,
        connections: int,
        channels: int,
        held_sessions: int,
        parked_bytes: int,
        paused_connections: int,
        published: int,
        delivered: int,
        confirmed: int,
        loop_turns: int,
        ignoring_flow: int,
        rung_withhold: int,
        rung_park: int,
        rung_pause: int,
        rung_reject: int,
        rung_close_channel: int,
        rung_close_connection: int,
        rung_hold_off: int,
        refused: int,
        lost_wakeups: int,
        refused_connections: int,
    ) -> None: ...
    def counters_read(self, role: Role, index: int) -> Counters: ...
    def measures_write(
        self,
        role: Role,
        index: int,
        loop_lag_p50_us: int,
        loop_lag_p99_us: int,
        commit_p99_us: int,
        stored_bytes: int,
    ) -> None: ...
    def measures_read(self, role: Role, index: int) -> Measures: ...
    def pair_add_sent(self, acceptor: int, shard: int, count: int) -> None: ...
    def pair_add_taken(self, acceptor: int, shard: int, count: int) -> None: ...
    def pair_in_flight(self, acceptor: int, shard: int) -> int: ...
    def pair_reset_sent(self, acceptor: int, shard: int) -> None: ...
    def pair_write_safe(self, acceptor: int, shard: int, incarnation: int, turn: int) -> None: ...
    def pair_read_safe(self, acceptor: int, shard: int) -> tuple[int, int]: ...
    def pair_write_doing(self, acceptor: int, shard: int, incarnation: int, turn: int, ordinal: int) -> None: ...
    def pair_write_finishing(self, acceptor: int, shard: int, incarnation: int, turn: int, life: int) -> None: ...
    def finishing_write(self, shard: int, life: int, queue: int) -> None: ...
    def finishing_read(self, shard: int, life: int) -> int: ...
    def pair_read_doing(self, acceptor: int, shard: int, incarnation: int, turn: int) -> int: ...
    def bucket_full_at(self, key: int, now: int) -> tuple[int, int]: ...
    def bucket_is_full_in(self, key: int, now: int, ahead: int, octets_ahead: int) -> bool: ...
    def user_queue_add(self, key: int, queue_id: int) -> bool: ...
    def user_queue_remove(self, key: int, queue_id: int) -> None: ...
    def user_queues(self, key: int) -> list[int]: ...
    def users_changed(self) -> int: ...
    def bucket_waiting(self, key: int, now: int, acceptor: int, code: int) -> int: ...
    def bucket_spend(self, key: int, now: int, count: int, rate: int, octets: int, octets_rate: int) -> None: ...
    def claim_place(self, key: int) -> int: ...
    def claim(self, place: int, acceptor: int, incarnation: int, count: int, octets: int) -> tuple[int, int]: ...
    def claims_clear(self, acceptor: int, incarnation: int) -> None: ...
    def queue_open(self, slot: int, queue_id: int, vhost: str, name: str, since_us: int) -> None: ...
    def gate_explain(self, shard: int, reason: str) -> None: ...
    def queue_close(self, slot: int) -> None: ...
    def queue_write(
        self,
        slot: int,
        ready: int,
        unacked: int,
        ready_bytes: int,
        unacked_bytes: int,
        published: int,
        delivered: int,
        acked: int,
        redelivered: int,
        dropped: int,
        consumers: int,
        flow_epoch: int,
        saturated: int,
        saturated_since_us: int,
        stop_count: int,
        resume_count: int,
        stop_bytes: int,
        resume_bytes: int,
        aside: int = 0,
        unburied: int = 0,
        unburied_bytes: int = 0,
        published_bytes: int = 0,
        delivered_bytes: int = 0,
        whole_bytes: int = -1,
        left: int = 0,
        reserve: int = 0,
    ) -> None: ...
    def queue_note_over(self, slot: int, count: int, octets: int) -> None: ...
    def queue_note_lent(self, slot: int, count: int, octets: int) -> None: ...
    def queue_note_peak(self, slot: int, count: int, octets: int) -> None: ...
    def queue_read(self, slot: int) -> QueueGauge | None: ...
    def queue_slots(self) -> Iterator[int]: ...
    def queues_written(self, seen: memoryview[int]) -> list[int]: ...
    def saturated(self, slot: int) -> bool: ...
    def aside(self, slot: int) -> bool: ...
    def flow_epoch(self, slot: int) -> int: ...
    def depth_count(self, slot: int) -> int: ...
    def depth_bytes(self, slot: int) -> int: ...
    def backlog(self, slots: tuple[int, ...], count: int, octets: int) -> int: ...
    def flow(self, slot: int) -> tuple[bool, bool, int, int]: ...
    def is_calm(self, slot: int, count: int, octets: int) -> bool: ...
    def depths(self, slots: array[int]) -> tuple[int, int, int, int]: ...

def remove_stale(directory: Path = ...) -> list[Path]: ...
