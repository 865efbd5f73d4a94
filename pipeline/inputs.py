"""The input of a rebalancing plan, as JSON."""

from __future__ import annotations

import json
from functools import partial

from pyspark.sql import Row

from pipeline.jobs.rebalance_inputs import rebalance_inputs
from pipeline.ranges import Range
from pipeline.read import Telemetry
from pipeline.recovery import ReportProgress, on_readable_files
from pipeline.runner import LIMIT_S, Runner

VERSION = 1


def inputs(
    telemetry: Telemetry,
    since: int,
    until: int,
    report_progress: ReportProgress,
    limit_s: float = LIMIT_S,
    *,
    exact: bool = False,
) -> str:
    """Return one JSON object: version, since and until (µs since 1970), and `queues`, rows of `rebalance_inputs`.

    `exact`: from rows even where there are summaries. Unreadable files are left out, and reported. PipelineError if the
    job fails for another reason, or takes longer than `limit_s`.
    """

    def found() -> list[Row]:
        span = Range(telemetry, since, until, exact=exact)
        return rebalance_inputs(span.with_rates(span.queues()), since, until).collect()

    with Runner(telemetry.spark, limit_s) as runner:
        job = partial(runner.run, "inputs", found)
        rows = on_readable_files(telemetry, runner, job, report_progress)
    content = {"version": VERSION, "since": since, "until": until, "queues": [row.asDict() for row in rows]}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"
