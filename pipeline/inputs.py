"""The input of a rebalancing plan, as JSON."""

from __future__ import annotations

import json

from pipeline.jobs.queues import queues
from pipeline.jobs.rebalance_inputs import rebalance_inputs
from pipeline.read import Telemetry

VERSION = 1


def inputs(telemetry: Telemetry, since: int, until: int) -> str:
    """Return one JSON object: version, since and until (µs since 1970), and `queues`, rows of `rebalance_inputs`."""
    depth = telemetry.rows("depth", since, until)
    found = rebalance_inputs(depth, queues(depth), since, until).collect()
    content = {"version": VERSION, "since": since, "until": until, "queues": [row.asDict() for row in found]}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"
