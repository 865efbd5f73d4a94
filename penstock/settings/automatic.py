"""The settings of automatic rebalancing. All of them may change while the node runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from penstock.settings.values import MIB, Bytes, Goals, Mode, Names
from penstock.text.times_of_day import span_of


def _check_spans(spans: tuple[str, ...]) -> tuple[str, ...]:
    for each in spans:
        span_of(each)
    return spans


Spans = Annotated[Names, AfterValidator(_check_spans)]


class AutomaticSettings(BaseModel):
    """Automatic rebalancing: whether the node makes and applies plans by itself, when, and how much it may move."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Mode = Field(
        default="off",
        description="`off`; `dry-run`: plans are made and kept, for an operator to apply; `on`: plans are applied",
    )
    goals: Goals = Field(
        default=("load", "held", "bytes", "queues"),
        min_length=1,
        description="goals that it watches and plans for, separated by commas",
        json_schema_extra={"default_text": "`load, held, bytes, queues`"},
    )
    window_seconds: float = Field(
        default=60.0, ge=0.5, le=86400, description="length of a window, in which the load is watched, in seconds"
    )
    every_seconds: float = Field(
        default=600.0, gt=0, description="time from the begin of a window to the begin of the next one, in seconds"
    )
    imbalance_percent: int = Field(
        default=125,
        ge=100,
        description="amount of a shard, in percent of the mean, beyond which a window is uneven; a goal with a higher "
        "limit has that limit",
    )
    windows: int = Field(default=3, ge=1, description="uneven windows, one after the other, before it plans")
    quiet_hours: Spans = Field(
        default=(),
        description="times of the day in which it may move queues, such as `22:00-06:00`, separated by commas, in the "
        "machine's local time",
        json_schema_extra={"default_text": "always"},
    )
    moves_per_run: int = Field(default=10, ge=1, le=10_000, description="maximum number of moves of a plan")
    bytes_per_run: Bytes = Field(
        default=1024 * MIB, ge=0, description="contents that the moves of a plan may copy, in bytes; 0 is no limit"
    )
    moves_per_day: int = Field(default=50, ge=1, description="maximum number of moves within 24 hours")
    bytes_per_day: Bytes = Field(
        default=10_240 * MIB, ge=0, description="contents that moves may copy within 24 hours, in bytes; 0 is no limit"
    )
    rest_seconds: float = Field(
        default=3600.0, ge=0, description="rest after a plan was applied, its own or an operator's, in seconds"
    )
    undo_rest_seconds: float = Field(
        default=86400.0,
        ge=0,
        description="rest after an operator has undone or aborted one of its plans, in seconds",
    )
    queue_rest_seconds: float = Field(
        default=86400.0, ge=0, description="how long a queue that a plan has moved stays where it is, in seconds"
    )
