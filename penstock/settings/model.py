"""The model of all settings.

`docs/configuration.md` and the help of the command line are made from the descriptions below. Constructing `Settings`
reads neither files nor the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, Field, model_validator

from penstock.batch.consumer_ids import MOST_SHARDS
from penstock.settings.auth import AuthSettings
from penstock.settings.default_data import default_data
from penstock.settings.first_user import FirstUserSettings
from penstock.settings.http import HttpSettings
from penstock.settings.limits import LimitSettings
from penstock.settings.listeners import Listening
from penstock.settings.machine import free_disk, stored_bytes
from penstock.settings.relays import RELAYS_MOST, RelaySettings
from penstock.settings.sections import (
    STORE_SHARE,
    AmqpSettings,
    FlowSettings,
    HoldOffSettings,
    MemorySettings,
    RebalanceSettings,
    StoreSettings,
    TelemetrySettings,
    TraceSettings,
    WatchdogSettings,
)
from penstock.settings.values import (
    MEMORY_SHARE,
    MIB,
    Bytes,
    Directory,
    FilePath,
    LogLevel,
    MemoryLimit,
    Name,
    ProcessCount,
)

USER_QUEUES_PERCENT = 90
"""Percentage of max_queues that a user without a limit of its own may declare."""


class Settings(Listening):
    """All settings of a node, every default filled in."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    acceptors: ProcessCount = Field(
        default=0, ge=0, le=256, description="processes that serve connections; 0 is half the cores, at least 1"
    )
    shards: ProcessCount = Field(
        default=0,
        ge=0,
        le=255,
        description="processes that hold queues; 0 is half the cores, at least 1; where it is not given, as many as "
        "the data directory already has",
    )
    spare_shards: int = Field(
        default=4,
        ge=0,
        le=255,
        description="shards that can be added while the node runs (`penstock shard add`); at most 255 with the others",
    )
    data: Directory = Field(
        default_factory=default_data,
        description="directory of all data that survives a restart; used by one node at a time",
        json_schema_extra={"default_text": "`$XDG_DATA_HOME/penstock`, or `~/.local/share/penstock`"},
    )
    definitions: FilePath | None = Field(
        default=None,
        description="file of definitions, penstock's or RabbitMQ's, imported at each start before clients are served; "
        "a new node then has no user but theirs",
        json_schema_extra={"default_text": "none"},
    )
    log_level: LogLevel = Field(
        default="info", description="least severe log line written: debug, info, warning or error"
    )
    max_queues: int = Field(
        default=65536, ge=1, le=2**24, description="queues the node can hold; sizes the gauges file"
    )
    max_topology_bytes: Bytes = Field(
        default=0,
        ge=0,
        description="memory for queues, exchanges and bindings in each process that has a copy of them, in bytes; "
        "further ones are refused; 0 is a quarter of memory.process_limit for all copies together",
    )
    user_topology_percent: int = Field(
        default=50,
        ge=1,
        le=100,
        description="share of max_topology_bytes that one user may declare and bind, in percent; more is refused",
    )
    memory_limit: MemoryLimit = Field(
        default=0,
        ge=0,
        description=f"memory the node's contents may use, in bytes; 0 is {MEMORY_SHARE:.0%} of the available memory",
    )
    arena_bytes: Bytes = Field(
        default=32 * MIB,
        ge=0,
        le=4096 * MIB,
        description="shared memory of an acceptor for large contents in transit, in bytes; 0 copies them instead",
    )
    amqp: AmqpSettings = AmqpSettings()
    auth: AuthSettings = AuthSettings()
    first_user: FirstUserSettings = FirstUserSettings()
    limits: LimitSettings = LimitSettings()
    flow: FlowSettings = FlowSettings()
    hold_off: HoldOffSettings = HoldOffSettings()
    memory: MemorySettings = MemorySettings()
    store: StoreSettings = StoreSettings()
    rebalance: RebalanceSettings = RebalanceSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    traces: TraceSettings = TraceSettings()
    http: HttpSettings = HttpSettings()
    watchdog: WatchdogSettings = WatchdogSettings()
    relays: dict[Name, RelaySettings] = Field(default={}, max_length=RELAYS_MOST, description="relays by name")

    @model_validator(mode="after")
    def _shards_have_indexes(self) -> Self:
        if self.shards + self.spare_shards > MOST_SHARDS:
            raise ValueError(
                f"shards ({self.shards}) and spare_shards ({self.spare_shards}) are more than {MOST_SHARDS} together"
            )
        return self

    @model_validator(mode="after")
    def _resolve_store_limit(self) -> Self:
        if not self.store.limit:
            limit = int((free_disk(self.data) + stored_bytes(self.data)) * STORE_SHARE)
            self.__dict__["store"] = self.store.model_copy(update={"limit": limit})
        return self

    @property
    def resolved_limits(self) -> LimitSettings:
        """The limits, with the default of `limits.user_queues` filled in."""
        if self.limits.user_queues >= 0:
            return self.limits
        return self.limits.model_copy(update={"user_queues": self.max_queues * USER_QUEUES_PERCENT // 100})

    @property
    def telemetry_directory(self) -> Path:
        """The directory of telemetry files."""
        return self.telemetry.directory or self.data / "telemetry"

    @property
    def report_file(self) -> Path:
        """The file of the pipeline's last report, which may be missing."""
        return self.http.report or self.data / "report.html"

    @classmethod
    def from_resolved(cls, facts: Mapping[str, Any]) -> Self:
        """The settings that another process resolved (`model_dump(mode="json")`); reads no file and no environment."""
        return cls(**facts)
