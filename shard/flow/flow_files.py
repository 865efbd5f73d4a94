"""The files of a shard about flow control: events, incidents, short stops, and the stops that are not over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.flow.flow_records import FlowRecords
from penstock.node import clock
from penstock.node.clock import now_us
from shard.flow.events import Events
from shard.flow.flow import Flow
from shard.flow.open_stops import OpenStops


class FlowFiles:
    """The files of one shard about flow control, in the data directory of its node. The stops of the last run, as far
    as they were not over, are handed to `flow`.
    """

    def __init__(self, data: Path, index: int, flow: Flow, events: Events) -> None:
        self.flow = flow
        self.events = events
        self.records = FlowRecords(data, "shard", index)
        self.open_stops = OpenStops(data, index)
        flow.earlier = self.open_stops.read()

    def write_gathered(self) -> None:
        """Write the records that have been gathered, if there are any."""
        if self.flow.incidents or self.events.records:
            self.write([])

    def write(self, short_stops: list[dict[str, Any]]) -> None:
        """Write the gathered records, and these sums of short stops."""
        flow, noted = self.flow, self.events
        events = [clock.as_wall(each, "at") for each in noted.records]
        stops = [[clock.as_wall(each, "begun", "ended") for each in some] for some in (flow.incidents, short_stops)]
        self.records.write(events, *stops)
        flow.incidents, noted.records = [], []

    def keep_open_stops(self, seconds: float) -> None:
        """Write the stops that have lasted so long."""
        self.open_stops.keep(self.flow.open_stops(now_us(), seconds))
