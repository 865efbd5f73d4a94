"""Types of the compiled `process_area.pyx`; its docstrings and `docs/gauges.md` describe them."""

from collections.abc import Sequence

from penstock.memory.mapped_file import MappedFile
from penstock.memory.records import Counters, FlowSums, Measures, Process
from penstock.node.node import Role

class ProcessArea(MappedFile):
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
        held_channels: int,
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
    def flow_write(
        self,
        role: Role,
        index: int,
        held_us: Sequence[int],
        charged_bytes: int,
        stop_delays: Sequence[int],
        resume_delays: Sequence[int],
    ) -> None: ...
    def flow_read(self, role: Role, index: int) -> FlowSums: ...
    def finishing_write(self, shard: int, incarnation: int, queue: int) -> None: ...
    def finishing_read(self, shard: int, incarnation: int) -> int: ...
