"""The stops of a shard that are not over, in a file, so that the next run of the node knows their beginnings.

The file is at most a second old and has the stops that had lasted a second by then; after an orderly end, all. Stops
that ended since are among the incidents, which are written as they end. Neither file is flushed to the disk, so a power
failure may cost some beginnings.
"""

from __future__ import annotations

from pathlib import Path

from penstock.files.atomic_file import AtomicFile
from penstock.files.record_file import read_records, records_path
from penstock.node.logs import get_logger
from shard.queue.saturation import Stop

log = get_logger()


class OpenStops:
    """The open stops of one shard, in the data directory of its node. Records are those of
    `shard.flow.flow.Flow.open_stops`.
    """

    def __init__(self, data: Path, index: int) -> None:
        self._file = AtomicFile(data / "open_stops" / f"shard.{index}.json", "stops that are not over")
        self.path = self._file.path
        self.keep = self._file.keep
        self._incidents = records_path(data, "incidents", "shard", index)

    def read(self) -> dict[int, Stop]:
        """The stops that were not over when the last run ended, by queue id; none, with a warning, if they cannot be
        read.
        """
        try:
            kept = self._file.read()
            ended = self._ended() if kept else set()
            return {
                record["queue_id"]: Stop(record["since"], record["peak_count"], record["peak_bytes"])
                for record in kept
                if (record["vhost"], record["queue"], record["since"]) not in ended
            }
        except (OSError, ValueError, LookupError, TypeError) as error:
            log.warning("beginnings of stops are lost", path=str(self.path), problem=str(error))
            return {}

    def _ended(self) -> set[tuple[str, str, int]]:
        """Vhost, queue and beginning (microseconds of the node's clock) of the stops that are over."""
        stops = (each for each in read_records(self._incidents) if each["kind"] == "queue")
        return {(each["vhost"], each["queue"], each.get("since_us", 0)) for each in stops}
