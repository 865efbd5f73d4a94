"""The input of a rebalancing plan, as JSON."""

from __future__ import annotations

import json
from functools import partial

from pyspark.sql import Row

from pipeline.jobs.queues import queues
from pipeline.jobs.rebalance_inputs import rebalance_inputs
from pipeline.read import Telemetry
from pipeline.recovery import ReportProgress, on_readable_files
from pipeline.runner import LIMIT_S, Runner

VERSION = 1


def inputs(
    telemetry: Telemetry, since: int, until: int, report_progress: ReportProgress, limit_s: float = LIMIT_S
) -> str:
    """Return one JSON object: version, since and until (µs since 1970), and `queues`, rows of `rebalance_inputs`.

    Unreadable files are left out, and reported. PipelineError if the job fails for another reason, or takes longer than
    `limit_s`.
    """

    def found() -> list[Row]:
        depth = telemetry.rows("depth", since, until)
        return rebalance_inputs(depth, queues(depth), since, until).collect()

    with Runner(telemetry.spark, limit_s) as runner:
        job = partial(runner.run, "inputs", found)
        rows = on_readable_files(telemetry, runner, job, report_progress)
    content = {"version": VERSION, "since": since, "until": until, "queues": [row.asDict() for row in rows]}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"
