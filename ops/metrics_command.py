"""`penstock metrics`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from console.metrics.exposition import Chosen, text
from console.metrics.reading import Reading
from ops.absence import exit_unless_running
from ops.naming import Config, Data, named_directory
from ops.status import opened


def metrics(
    config: Config = None,
    data: Data = None,
    per_queue: Annotated[bool, typer.Option("--per-queue", help="also those of each queue")] = False,
    openmetrics: Annotated[bool, typer.Option("--openmetrics", help="as OpenMetrics 1.0")] = False,
) -> None:
    """Reads shared memory only. Exit status 1 if no node runs there.

    Example: penstock metrics --per-queue
    """
    with exit_unless_running(), opened(named_directory(config, data)) as (node, gauges):
        chosen = Chosen.ALL if per_queue else Chosen.NODE
        found = text(Reading(gauges, node.settings), chosen, openmetrics=openmetrics)
    sys.stdout.buffer.write(found)
