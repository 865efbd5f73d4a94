"""Records of flow control that a process keeps in the data directory: incidents, short stops, events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.files.record_file import RecordFile, records_path
from penstock.node.node import Role

Records = list[dict[str, Any]]


class FlowRecords:
    """The record files of one process."""

    def __init__(self, data: Path, role: Role, index: int) -> None:
        self.events = RecordFile(records_path(data, "events", role, index))
        self.incidents = RecordFile(records_path(data, "incidents", role, index))
        self.short_stops = RecordFile(records_path(data, "short_stops", role, index))

    def write(self, events: Records, incidents: Records, short_stops: Records) -> None:
        """Append the given records; their times are seconds since 1970."""
        for file, records in (
            (self.events, events),
            (self.incidents, incidents),
            (self.short_stops, short_stops),
        ):
            if records:
                file.append(records)
