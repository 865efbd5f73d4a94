"""Summaries beside the history: each hour's and day's once, made again when their rows change, whatever a run left."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from pipeline import layout
from pipeline.compact import compact
from pipeline.layout import HOUR_US
from pipeline.parts import plain
from pipeline.summaries import queues
from pipeline.summaries.layout import QUEUE_DAYS, QUEUE_HOURS, SHARD_SLOTS, day_path
from pipeline.summarize import Skipped, summarize
from tests.pipeline import live
from tests.pipeline.day import Day
from tests.pipeline.weeks import GRACE, HOURS, NOW, compacted, hour, long, written

DAY = hour(0).dt


def directory(root: Path, dataset: str, span: str) -> Path:
    return Path(layout.history_base(str(root), dataset)) / span


def stored(root: Path, dataset: str, span: str) -> pa.Table:
    """Return the parts in a directory, which has no other ones."""
    return pa.concat_tables(pq.read_table(part) for part in sorted(directory(root, dataset, span).glob("*.parquet")))


def test_hours_and_days_are_summarized_once(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    made = written(spark, tmp_path, day)
    past = [hour(number).path for number in HOURS[:-1]]
    assert [each.span for each in made if each.dataset == QUEUE_HOURS] == past
    assert [each.span for each in made if each.dataset == SHARD_SLOTS] == past
    assert [each.span for each in made if each.dataset == QUEUE_DAYS] == [day_path(DAY)]
    rows = pa.Table.from_pylist(day.depth, plain("depth")).select(queues.READ)
    first = stored(tmp_path, QUEUE_HOURS, past[0]).cast(queues.SCHEMA).sort_by([("queue", "ascending")])
    assert first.equals(queues.summarize(rows))
    hours = [stored(tmp_path, QUEUE_HOURS, path) for path in past if DAY in path]
    merged = stored(tmp_path, QUEUE_DAYS, day_path(DAY)).cast(queues.SCHEMA).sort_by([("queue", "ascending")])
    assert merged.equals(queues.merge(pa.concat_tables(hours).cast(queues.SCHEMA)))
    (of_day,) = (each.manifest for each in made if each.dataset == QUEUE_DAYS)
    assert (of_day.rows, of_day.summaries) == (len(hours) * len(day.depth), merged.num_rows)
    assert compacted(spark, tmp_path) == []


def test_a_late_file_has_its_hour_and_day_summarized_again(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    written(spark, tmp_path, day)
    (late,) = live.write(tmp_path, "depth", [{**day.depth[0], "queue": "late"}], "late")
    made = compacted(spark, tmp_path)
    assert [(each.dataset, each.span) for each in made] == [(QUEUE_HOURS, hour(0).path), (QUEUE_DAYS, day_path(DAY))]
    for dataset, span in ((QUEUE_HOURS, hour(0).path), (QUEUE_DAYS, day_path(DAY))):
        found = stored(tmp_path, dataset, span).column("queue").to_pylist()
        assert found.count("late") == 1
        assert len({*found}) == len(found), "parts of the summary before are gone"
    assert late.exists()


def test_what_a_dead_run_left_does_no_harm(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    """It died before it wrote a manifest, or while it did."""
    live.write_day(tmp_path, long(day), files=1)
    for dataset, span in ((QUEUE_HOURS, hour(0).path), (QUEUE_HOURS, hour(1).path), (QUEUE_DAYS, day_path(DAY))):
        place = directory(tmp_path, dataset, span)
        place.mkdir(parents=True)
        (place / "part-dead-0000.parquet").write_bytes(b"half a part")
    torn = directory(tmp_path, QUEUE_HOURS, hour(1).path) / layout.manifest_name(1)
    torn.write_text('{"parts": ["part-dead-0000')
    made = compacted(spark, tmp_path)
    assert len([each for each in made if each.dataset == QUEUE_HOURS]) == len(HOURS) - 1
    assert not [*tmp_path.glob("history/**/part-dead-*")], "the next run removes what a dead one left"
    assert compacted(spark, tmp_path, NOW + HOUR_US) != [], "the last hour is over then"
    assert compacted(spark, tmp_path, NOW + HOUR_US) == []


def test_a_damaged_part_costs_the_summary_of_its_hour(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    """And that of its day, until it is mended. A damaged summary costs that of its day."""
    live.write_day(tmp_path, long(day), files=1)
    for _ in compact(spark, str(tmp_path), NOW, GRACE):
        pass
    bad = []
    for table in ("depth", "shard"):
        (part,) = directory(tmp_path, table, hour(1).path).glob("*.parquet")
        bad.append((part, part.read_bytes()))
        spoil(part)
    found = list(summarize(spark, str(tmp_path), NOW, GRACE))
    skipped = [each for each in found if isinstance(each, Skipped)]
    assert [(each.dataset, each.span) for each in skipped] == [
        (name, hour(1).path) for name in (QUEUE_HOURS, SHARD_SLOTS)
    ]
    assert [each.unreadable[0].rpartition("/")[2] for each in skipped] == [part.name for part, _ in bad]
    assert len(found) == 2 * (len(HOURS) - 1)
    for part, contents in bad:
        part.write_bytes(contents)
    (summary,) = directory(tmp_path, QUEUE_HOURS, hour(0).path).glob("*.parquet")
    spoil(summary)
    found = list(summarize(spark, str(tmp_path), NOW, GRACE))
    (skip,) = (each for each in found if isinstance(each, Skipped))
    assert (skip.dataset, skip.span) == (QUEUE_DAYS, day_path(DAY))
    assert summary.name in str(skip)


def spoil(part: Path) -> None:
    part.with_name(f".{part.name}.crc").unlink()
    part.write_bytes(b"this is no Parquet at all")
