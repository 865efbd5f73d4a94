"""The report on a failed run: enough to find the cause without reproducing it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.broker.process import ROOT

if TYPE_CHECKING:
    from tests.faults.rounds import Rounds

SHOWN = 20
HISTORIES = 3
FAULTS = 12


def report(rounds: Rounds, number: int, error: Exception) -> str:
    """Return the violations, the histories of the messages concerned, the last faults, the node's errors, and the place
    of all that was kept.
    """
    kept = keep(rounds)
    problems = rounds.checker.problems
    findings = problems or [f"{type(error).__name__}: {error}".partition("\n")[0]]
    lines = [f"seed {rounds.seed}, round {number}: {len(findings)} things wrong", *findings[:SHOWN]]
    for message in list(rounds.checker.suspects.values())[:HISTORIES]:
        lines += [f"-- {message}", *rounds.record.history(message)]
    lines += ["-- the last faults", *rounds.record.faults()[-FAULTS:]]
    lines += ["-- what the node says", *errors(rounds.node.broker.log)]
    lines += ["-- all of it", f"{kept}/", again()]
    return "\n".join(lines)


def keep(rounds: Rounds) -> Path:
    """Copy the node's log and all events of its clients to a place where no later test run removes them; return it."""
    directory = rounds.node.broker.directory
    kept = ROOT / "build" / "faults" / f"{directory.name}-seed-{rounds.seed}"
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copy(rounds.node.broker.log_file, kept)
    (kept / "events.txt").write_text("\n".join(rounds.record.lines()) + "\n")
    return kept


def again() -> str:
    """Return the command that repeats the run, as far as the seed determines it."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    return f"FAULTS_SEED={os.environ.get('FAULTS_SEED', '0')} .venv/bin/pytest -m '' '{test}'"


def errors(log: str) -> Iterator[str]:
    """Yield the errors in a node's log, and lines that are not log entries."""
    for line in log.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            yield line
            continue
        if entry["level"] in ("error", "critical"):
            time = entry["timestamp"].partition("T")[2].rstrip("Z")
            rest = {name: entry[name] for name in entry if name not in ("role", "index", "level", "timestamp", "event")}
            trace = rest.pop("exception", "")
            yield f"{time}  {entry['role']} {entry['index']}: {entry['event']} {rest or ''}"
            yield from trace.splitlines()
