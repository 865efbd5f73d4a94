"""Commands to copy, as a shell reads them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping

from pipeline.report.contents import Row

MARKS = {
    "flow-stop-count": "stop_count",
    "flow-resume-count": "resume_count",
    "flow-stop-size": "stop_bytes",
    "flow-resume-size": "resume_bytes",
}
"""Keys of a policy, and the columns of recommended marks."""


def command(words: str, *names: str, options: Mapping[str, str] | None = None) -> str | None:
    """Return a command of penstock: its words, options, and the names that it takes. None if a text has characters that
    a terminal would not show as they are.
    """
    texts = [*words.split(), *(f"--{option}={value}" for option, value in (options or {}).items())]
    texts += ["--"] * any(name.startswith("-") for name in names)
    texts += names
    return " ".join(("penstock", *map(shlex.quote, texts))) if all(map(str.isprintable, texts)) else None


def set_marks(row: Row) -> str | None:
    """Return the command that sets the marks of a row of recommended marks, for its queue alone. None as above."""
    definition = {key: row[name] for key, name in MARKS.items() if row[name] is not None}
    names = f"marks-{row['queue']}", f"^{re.escape(row['queue'])}$", json.dumps(definition)
    return command("policy set", *names, options={"vhost": row["vhost"], "apply-to": "queues"})


def plan_moves() -> str | None:
    """Return the command that makes a plan of moves; it moves nothing."""
    return command("rebalance plan", options={"window": "5m"})


def list_consumers(row: Row) -> str | None:
    """Return the command that lists the consumers of a row's queue. None as above."""
    return command("consumer list", options={"vhost": row["vhost"], "queue": row["queue"]})


def explain_limits(row: Row) -> str | None:
    """Return the command that explains the limits of a row's queue. None as above."""
    return command("flow explain", row["queue"], options={"vhost": row["vhost"]})
