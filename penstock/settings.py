"""Every setting of a node: one typed model, read once at start and never changed afterwards.

Precedence is written here and nowhere else (`Settings.load`): defaults, then the TOML file, then the environment
(`PENSTOCK_PORT`, `PENSTOCK_FLOW__MAX_COUNT`), then flags and `--set KEY=VALUE`; the later wins. `docs/configuration.md`
and the help of the command line are made from the descriptions below. Constructing `Settings` directly reads neither
files nor the environment.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self, TypeVar

import psutil
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from penstock import amounts
from penstock.sources import (
    ENV_NESTED,
    ENV_PREFIX,
    SettingsError,
    Tree,
    assignment,
    check_known,
    environment,
    first_complaint,
    in_own_names,
    leaves,
    merge,
    toml,
)
from penstock.watermarks import FlowDefaults

MEMORY_SHARE = 0.4
STORE_SHARE = 0.8
# With `store.durability = "none"` the disk follows after so many milliseconds.
UNHURRIED_MS = 5000
FOREIGN = {
    "default-queue-limit": "flow.max_bytes",
    "default-flow-stop-threshold": "flow.stop_percent",
    "default-flow-resume-threshold": "flow.resume_percent",
    "systemUsage.memoryUsage": "memory_limit",
    "systemUsage.storeUsage": "store.limit",
    "systemUsage.tempUsage": "store.spill_limit",
}
"""Settings of Qpid C++ and ActiveMQ, and what they are called here."""
KIB = 1024
MIB = 1024 * KIB

LogLevel = Literal["debug", "info", "warning", "error"]


def default_data() -> Path:
    """The user's data directory for penstock (XDG base directory specification)."""
    home = os.environ.get("XDG_DATA_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path("~/.local/share").expanduser()
    return base / "penstock"


def half_the_cores() -> int:
    """Half of the cores this process may run on, at least 1."""
    return max(1, len(os.sched_getaffinity(0)) // 2)


def usable_memory() -> int:
    """Bytes of memory this node may count on: the machine's, or its control group's limit where that is lower."""
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # no control group here, or its limit is the word "max"
        limit = 2**63
    return min(limit, psutil.virtual_memory().total)


def free_disk(path: Path) -> int:
    """Bytes that are free on the disk where a directory is, or will be."""
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    return shutil.disk_usage(there).free


def stored_bytes(data: Path) -> int:
    """Bytes of the stores of a data directory."""
    total = 0
    for path in data.glob("shards/*/**/*.mdb"):
        with suppress(OSError):  # gone since, or not ours to look at: then the node will say so
            total += path.stat().st_size
    return total


def _parse_bytes(value: object) -> object:
    """Sizes may be written "64 MiB"; numbers are bytes."""
    return amounts.size(value) if isinstance(value, str) else value


def _parse_names(value: object) -> object:
    """Names may be written "one,two"."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return value


def _parse_durability(value: object) -> object:
    """An interval may be written "interval=50 ms"."""
    if not isinstance(value, str):
        return value
    text = value.lower().replace(" ", "").removesuffix("ms")
    if text not in ("commit", "none") and not re.fullmatch(r"interval=[1-9]\d{0,5}", text):
        raise ValueError("is none of commit, interval=N ms, none")
    return text


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


SIZE = BeforeValidator(_parse_bytes)
"""Marks a setting as a number of bytes."""

Bytes = Annotated[int, SIZE]
ProcessCount = Annotated[int, AfterValidator(lambda count: count or half_the_cores())]
ProcessMemory = Annotated[Bytes, AfterValidator(lambda limit: limit or usable_memory())]
MemoryLimit = Annotated[Bytes, AfterValidator(lambda limit: limit or int(usable_memory() * MEMORY_SHARE))]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parse_names)]
Durability = Annotated[str, BeforeValidator(_parse_durability)]
Directory = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]


class _WithMarks(Protocol):
    stop_percent: int
    resume_percent: int


M = TypeVar("M", bound=_WithMarks)


def _resume_not_above_stop(section: M) -> M:
    if section.resume_percent > section.stop_percent:
        raise ValueError(f"resume_percent ({section.resume_percent}) is above stop_percent ({section.stop_percent})")
    return section


class AmqpSettings(BaseModel):
    """What is offered to clients, and the limits on what they may send."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    frame_max: Bytes = Field(
        default=128 * KIB,
        ge=4096,
        le=16 * MIB,
        description="largest frame offered in connection.tune, in bytes with its overhead",
    )
    channel_max: int = Field(
        default=2047, ge=1, le=65535, description="highest channel number offered in connection.tune"
    )
    heartbeat: int = Field(
        default=60,
        ge=0,
        le=65535,
        description="heartbeat interval offered in connection.tune, in seconds; 0 offers none",
    )
    max_message_size: Bytes = Field(
        default=128 * MIB,
        ge=1,
        le=1024 * MIB,
        description="largest body of a message, in bytes; a larger one closes the channel",
    )
    consumer_timeout: float = Field(
        default=1800.0,
        ge=0,
        description="time a client has to acknowledge a delivery before its channel is closed, in seconds; queues may "
        "have their own (x-consumer-timeout); 0 is no limit",
    )
    consumers_per_channel: int = Field(
        default=0, ge=0, description="most consumers that a channel may have at a time; 0 is no limit"
    )
    transaction_bytes: Bytes = Field(
        default=64 * MIB,
        ge=0,
        description="contents of publishes that wait for tx.commit, in bytes an acceptor; more close the channel",
    )
    receive_buffer: Bytes = Field(
        default=256 * KIB,
        ge=0,
        description="kernel's receive buffer of a connection, in bytes; it bounds what a stopped producer may still "
        "send; 0 lets the kernel grow it",
    )
    loopback_users: Names = Field(
        default=("guest",),
        description="users who may log in from this machine only, separated by commas; empty restricts nobody",
        json_schema_extra={"default_text": "`guest`"},
    )
    handshake_timeout: float = Field(
        default=10.0, gt=0, le=3600, description="time a client has from connecting to connection.open, in seconds"
    )


class FlowSettings(BaseModel):
    """When producers are stopped and resumed, and how much may wait meanwhile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_count: int = Field(
        default=0, ge=0, description="limit of a queue that names none itself, in messages; 0 is no limit"
    )
    max_bytes: Bytes = Field(
        default=0, ge=0, description="limit of a queue that names none itself, in bytes of contents; 0 is no limit"
    )
    stop_percent: int = Field(
        default=80, ge=1, le=100, description="stop mark of a queue that names none itself, in percent of its limit"
    )
    resume_percent: int = Field(
        default=70,
        ge=0,
        le=100,
        description="resume mark of a queue that names none itself, in percent; at most stop_percent",
    )
    near_percent: int = Field(
        default=90, ge=1, le=100, description="how much of a stop mark makes a near event of a queue, in percent"
    )
    parking_bytes: Bytes = Field(
        default=128 * KIB,
        ge=0,
        description="contents of held publishes kept for a connection before it is read slowly, in bytes",
    )
    orphan_bytes: Bytes = Field(
        default=64 * MIB,
        ge=0,
        description="contents of held publishes kept for closed connections, in bytes an acceptor",
    )
    pair_bytes: Bytes = Field(
        default=1 * MIB, ge=64 * KIB, description="contents in flight from an acceptor to a shard, in bytes"
    )
    pair_count: int = Field(
        default=2048, ge=64, description="publishes in flight from an acceptor to a shard, in messages"
    )
    consumer_window_bytes: Bytes = Field(
        default=2 * MIB,
        ge=64 * KIB,
        description="deliveries a shard may have under way to a consumer, in bytes of bodies and 64 for each message; "
        "what is handed out at once may exceed it: to about twice as much if messages are small, and by one large one",
    )
    tx_when_full: Literal["wait", "reject"] = Field(
        default="wait",
        description="what a tx.commit does for want of room in a queue: wait for it, or reject: the channel is closed "
        "and all of it rolled back",
    )
    recheck_seconds: float = Field(
        default=0.1,
        gt=0,
        le=60,
        description="how often held sessions re-read the gauges in case a broadcast was lost, in seconds",
    )

    _marks = model_validator(mode="after")(_resume_not_above_stop)

    @property
    def defaults(self) -> FlowDefaults:
        """What a queue has that says nothing itself."""
        return FlowDefaults(self.max_count, self.max_bytes, self.stop_percent, self.resume_percent)


class MemorySettings(BaseModel):
    """Where the memory of the node stops producers, and lets them go."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    stop_percent: int = Field(
        default=80, ge=1, le=100, description="stop mark, in percent of memory_limit and of process_limit"
    )
    resume_percent: int = Field(
        default=70, ge=0, le=100, description="resume mark, in percent of both; at most stop_percent"
    )
    process_limit: ProcessMemory = Field(
        default=0,
        ge=0,
        description="memory that all processes of the node may have for themselves, whatever for, in bytes; 0 is all "
        "the memory there is",
    )

    _marks = model_validator(mode="after")(_resume_not_above_stop)


class StoreSettings(BaseModel):
    """Where persistent messages are kept, and what a confirm of one promises."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    durability: Durability = Field(
        default="commit",
        description="when persistent messages are confirmed: commit, once they are on the disk; interval=N ms, once "
        "they are written, the disk following every N milliseconds, which a power cut may cost; none, the same with "
        f"{UNHURRIED_MS} ms. A crash of penstock costs nothing with any of them",
    )
    limit: Bytes = Field(
        default=0,
        ge=0,
        description=f"contents the node's stores may hold, in bytes; 0 is {STORE_SHARE:.0%} of what is free on the "
        "disk, or theirs already, when the node starts",
    )
    spill_limit: Bytes = Field(
        default=0,
        ge=0,
        description="contents of that which may be there for want of memory only, in bytes; 0 is no further limit",
    )
    stop_percent: int = Field(default=100, ge=1, le=100, description="stop mark, in percent of limit and spill_limit")
    resume_percent: int = Field(
        default=95, ge=0, le=100, description="resume mark, in percent of both; at most stop_percent"
    )

    _marks = model_validator(mode="after")(_resume_not_above_stop)

    @property
    def flush_ms(self) -> int:
        """Milliseconds between two flushes to the disk; 0 for one with each commit."""
        fixed = {"commit": 0, "none": UNHURRIED_MS}
        return fixed[self.durability] if self.durability in fixed else int(self.durability.removeprefix("interval="))


class Settings(BaseSettings):
    """All settings of a node, every default filled in."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_NESTED,
    )

    host: str = Field(default="127.0.0.1", min_length=1, description="address AMQP is served on")
    port: int = Field(default=5672, ge=0, le=65535, description="TCP port AMQP is served on; 0 takes a free one")
    acceptors: ProcessCount = Field(
        default=0, ge=0, le=256, description="processes that serve connections; 0 is half the cores, at least 1"
    )
    shards: ProcessCount = Field(
        default=0, ge=0, le=256, description="processes that hold queues; 0 is half the cores, at least 1"
    )
    data: Directory = Field(
        default_factory=default_data,
        description="directory of what survives a restart; one node at a time",
        json_schema_extra={"default_text": "`$XDG_DATA_HOME/penstock`, or `~/.local/share/penstock`"},
    )
    log_level: Annotated[LogLevel, BeforeValidator(_lower)] = Field(
        default="info", description="least severe log line written: debug, info, warning or error"
    )
    max_queues: int = Field(
        default=65536, ge=1, le=2**24, description="queues the node can hold; sizes the gauges file"
    )
    memory_limit: MemoryLimit = Field(
        default=0,
        ge=0,
        description=f"memory the node's contents may use, in bytes; 0 is {MEMORY_SHARE:.0%} of the memory there is",
    )
    arena_bytes: Bytes = Field(
        default=32 * MIB,
        ge=0,
        le=4096 * MIB,
        description="shared memory of an acceptor for large contents on their way, in bytes; at 0 they are copied",
    )
    amqp: AmqpSettings = AmqpSettings()
    flow: FlowSettings = FlowSettings()
    memory: MemorySettings = MemorySettings()
    store: StoreSettings = StoreSettings()

    @model_validator(mode="after")
    def _resolve_store_limit(self) -> Self:
        if not self.store.limit:
            limit = int((free_disk(self.data) + stored_bytes(self.data)) * STORE_SHARE)
            self.__dict__["store"] = self.store.model_copy(update={"limit": limit})
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only the arguments: `load` asks the other sources itself, so that a child never sees them."""
        return (init_settings,)

    @classmethod
    def load(
        cls, config: Path | None = None, flags: Mapping[str, Any] | None = None, assignments: Sequence[str] = ()
    ) -> Self:
        """Read every source.

        `config` is a TOML file; `flags` maps top-level names to values, None being a flag that was not given;
        `assignments` are "dotted.key=value" texts. SettingsError says what is wrong with which of them.
        """
        layers = [("in the environment", environment(cls))]
        if config is not None:
            layers.insert(0, (f"in {config}", toml(cls, config)))
        layers.append(
            ("on the command line", {key: value for key, value in (flags or {}).items() if value is not None})
        )
        layers.extend(("by --set", assignment(text)) for text in assignments)
        merged: Tree = {}
        origins: dict[str, str] = {}
        for origin, foreign_layer in layers:
            layer = in_own_names(foreign_layer, FOREIGN, origin)
            for key in leaves(cls, layer):
                check_known(cls, key, origin)
                origins[key] = origin
            merge(merged, layer)
        try:
            return cls(**merged)
        except ValidationError as error:
            raise SettingsError(first_complaint(error, origins)) from None

    @classmethod
    def from_resolved(cls, facts: Mapping[str, Any]) -> Self:
        """The settings another process resolved (`model_dump(mode="json")`); reads no file and no environment."""
        return cls(**facts)
