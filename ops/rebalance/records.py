"""The plans and their history in DATA/rebalance, which survive restarts of the node.

Records of `history.jsonl` (`penstock.files.record_file`), all with `at` (seconds since 1970) and `plan`:

    {"event": "kept", "moves", "expires"}: automatic rebalancing made the plan, for an operator to apply
    {"event": "begun", "by", "holder", "undoes", "moves", "placement_version", "before", "after"}
    {"event": "start", "number", "vhost", "queue", "from", "to", "bytes"}
    {"event": "move", the same, "result", "reason", "pause_ms", "messages", "bytes", "placement_version"}
    {"event": "ended", "state", "reason"}
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from ops.errors import CommandError
from ops.rebalance.applying import Ended, Result, Start
from ops.rebalance.costs import expected_pause
from ops.rebalance.files import plan_text, read_plan
from ops.rebalance.plan import Plan
from penstock.files.record_file import RecordFile, read_records

PLANS_KEPT = 100
_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}")

By = Literal["operator", "automatic"]
"""The origin of an attempt to apply a plan: a command, or automatic rebalancing."""

Facts = dict[str, Any]


class Records:
    """The plans and history of the node on a data directory."""

    def __init__(self, data: Path) -> None:
        self._directory = data / "rebalance"
        self._history = RecordFile(self._directory / "history.jsonl")

    def keep(self, plan: Plan) -> Path:
        """Store a plan, and delete the oldest beyond PLANS_KEPT. CommandError if that fails."""
        path = self._path(plan.id)
        unfinished = path.with_name(f".{path.name}")
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            unfinished.touch(mode=0o600)
            unfinished.write_text(plan_text(plan), encoding="utf-8")
            unfinished.replace(path)
            for old in sorted(path.parent.glob("*.json"))[:-PLANS_KEPT]:
                old.unlink(missing_ok=True)
        except OSError as error:
            raise CommandError(f"cannot keep the plan in {path.parent}: {error.strerror}") from None
        return path

    def plan(self, name: str) -> Plan:
        """Return a plan by its id or from a file. CommandError if there is none."""
        if _ID.fullmatch(name) and self._path(name).exists():
            return read_plan(self._path(name))
        if not Path(name).exists():
            raise CommandError(f"there is no plan '{name}': neither a known id nor a file")
        return read_plan(Path(name))

    def of_plan(self, plan: str) -> list[Facts]:
        """Return the records of one plan, in order."""
        return [record for record in self.all() if record["plan"] == plan]

    def by_plan(self) -> dict[str, list[Facts]]:
        """Return all records by plan id, in the order in which the plans were first applied."""
        found: dict[str, list[Facts]] = {}
        for record in self.all():
            found.setdefault(record["plan"], []).append(record)
        return found

    def expected_pause(self) -> float:
        """Return the expected pause of a move in ms, from past ones."""
        return expected_pause(self.all())

    @property
    def path(self) -> Path:
        """The file of the history; it may be missing."""
        return self._history.path

    def all(self) -> Iterator[Facts]:
        """Yield all records of the history, in order."""
        return read_records(self._history.path)

    def kept(self, plan: Plan, expires: float) -> bool:
        """Record that a plan was made for an operator to apply before `expires`; whether that was written."""
        return self._append(plan.id, "kept", moves=len(plan.moves), expires=expires)

    def begun(self, plan: Plan, by: By, holder: str, version: int) -> bool:
        """Record that `holder` begins to apply a plan, at this placement version; whether that was written."""
        scores = {"before": plan.before, "after": plan.after}
        facts = {"by": by, "holder": holder, "undoes": plan.undoes, "moves": len(plan.moves)}
        return self._append(plan.id, "begun", **facts, placement_version=version, **scores)

    def start(self, plan: Plan, start: Start, nbytes: int) -> bool:
        """Record the start of a move of a queue with so many bytes; whether that was written."""
        return self._append(plan.id, "start", number=start.number, **start.move.where(), bytes=nbytes)

    def move(self, plan: Plan, start: Start, result: Result) -> None:
        """Record the result of a move."""
        self._append(
            plan.id,
            "move",
            number=start.number,
            **start.move.where(),
            **{name: getattr(result, name) for name in ("result", "reason", "pause_ms", "messages")},
            bytes=result.nbytes,
            placement_version=result.placement_version,
        )

    def ended(self, plan: str, ended: Ended) -> bool:
        """Record the end of applying the plan of that id; whether that was written."""
        return self._append(plan, "ended", state=ended.state, reason=ended.reason)

    def _append(self, plan: str, event: str, **facts: Any) -> bool:
        return self._history.append([{"at": time.time(), "plan": plan, "event": event, **facts}])

    def _path(self, plan: str) -> Path:
        return self._directory / "plans" / f"{plan}.json"


def summary(plan: str, records: list[Facts], applying: bool) -> Facts:
    """Summarize the history of one plan. `by` is the origin of its last attempt, None if it was only kept."""
    made = [record for record in records if record["event"] == "move" and record["result"] == "moved"]
    begun = [record for record in records if record["event"] == "begun"]
    ended = next((record for record in reversed(records) if record["event"] in ("ended", "begun")), None)
    over = ended if ended is not None and ended["event"] == "ended" else None
    kept = [record for record in records if record["event"] == "kept"]
    state = "kept" if kept and not begun else over["state"] if over else "interrupted"
    return {
        "plan": plan,
        "begun": begun[0]["at"] if begun else None,
        "ended": over["at"] if over and not applying else None,
        "by": begun[-1].get("by", "operator") if begun else None,
        "state": "applying" if applying else state,
        "reason": over["reason"] if over and not applying else "",
        "moved": len(made),
        "moves": next((record["moves"] for record in (*begun, *kept)), None),
        "messages": sum(record["messages"] for record in made),
        "bytes": sum(record["bytes"] for record in made),
        "longest_pause_ms": max((record["pause_ms"] or 0.0 for record in made), default=0.0),
        "results": _counted(record["result"] for record in records if record["event"] == "move"),
    }


def _counted(results: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for result in results:
        found[result] = found.get(result, 0) + 1
    return found
