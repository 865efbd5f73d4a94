"""The producers that a policy would stop if it were set now, asked of a running node."""

from __future__ import annotations

from pathlib import Path

from console.flow import trial
from ops.administration.node import ask
from ops.administration.processes import Facts, Processes
from ops.administration.publishing import publish_rates


def would_stop(data: Path | None, policy: Facts) -> tuple[list[str], list[Facts], list[str]]:
    """Return the effect of a policy (`console.flow.trial`). CommandError if there can be no such policy. If it sets
    rates, publishes are watched for a while.
    """
    answer = ask(data, "policy_try", **policy)
    processes = Processes(data)
    publishes = publish_rates(processes) if answer["rates"] else []
    return trial.would_stop(answer, processes.ask_acceptors("publishing"), publishes, processes.gauges)
