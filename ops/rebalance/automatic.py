"""Automatic rebalancing as operators see it: what it does and why, its last plan, and an operator's pause.

DATA/rebalance/pause.json is written by commands, DATA/rebalance/balancer.json by the balancer (`ops.balancer`). Both
survive restarts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from ops.administration.processes import Processes
from ops.errors import CommandError
from ops.naming import data_directory
from ops.rebalance.past import past_of
from ops.rebalance.records import Records, summary
from penstock.files.atomic_file import AtomicFile
from penstock.memory.gauges import READY, STATE_NAMES

Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """An operator's pause, until a time in seconds since 1970; None is until it is resumed."""

    by: str
    until: float | None = None

    def lasts(self, now: float) -> bool:
        """Whether it is not over."""
        return self.until is None or now < self.until


class Said(NamedTuple):
    """What the balancer says of itself. Times in seconds since 1970; `until` is None if it is not known."""

    stage: str
    why: str
    since: float
    until: float | None


class PauseFile:
    """The pause of the node on a data directory."""

    def __init__(self, data: Path) -> None:
        self.path = data / "rebalance" / "pause.json"

    def read(self) -> Pause | None:
        """Return the pause, which may be over; None if there is none. CommandError if it cannot be read."""
        try:
            facts = orjson.loads(self.path.read_bytes())
            return Pause(str(facts["by"]), None if facts["until"] is None else float(facts["until"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CommandError(f"cannot read {self.path}: {error}; `penstock rebalance resume` removes it") from None

    def write(self, pause: Pause) -> None:
        """Set the pause. CommandError if it cannot be written."""
        new = self.path.with_suffix(".new")
        try:
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            new.touch(mode=0o600)
            new.write_bytes(orjson.dumps({"by": pause.by, "until": pause.until}))
            new.replace(self.path)
        except OSError as error:
            raise CommandError(f"cannot write {self.path}: {error.strerror}") from None

    def remove(self) -> bool:
        """End the pause; whether there was one. CommandError if it cannot be removed."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise CommandError(f"cannot remove {self.path}: {error.strerror}") from None
        return True


def said_file(data: Path) -> AtomicFile:
    """Return the file in which the balancer says what it does."""
    return AtomicFile(data / "rebalance" / "balancer.json", "the state of automatic rebalancing")


def said(data: Path) -> Said | None:
    """Return what the balancer has said last; None if that is nothing, or cannot be read."""
    try:
        (facts,) = said_file(data).read()
        return Said(**facts)
    except (OSError, ValueError, TypeError):
        return None


def automatic_facts(data: Path | None) -> Facts:
    """Return {mode, stage, why, since, until, last}: what the balancer of the running node says of itself, and the
    summary of its last plan (None if it made none). While its process is not ready, the stage is that of the process.
    """
    processes, records = Processes(data), Records(data_directory(data))
    mode = processes.node.settings["rebalance"]["automatic"]["mode"]
    place = processes.gauges.process_read("balancer", 0)
    known = said(data_directory(data)) if place.state == READY else None
    if known is None:
        stage = "off" if mode == "off" else STATE_NAMES[place.state]
        facts: Facts = {
            "stage": stage,
            "why": f"its process is {STATE_NAMES[place.state]}",
            "since": None,
            "until": None,
        }
    else:
        facts = known._asdict()
    ours = [plan.id for plan in past_of(records.all()).plans if plan.ours]
    last = summary(ours[-1], records.of_plan(ours[-1]), applying=False) if ours else None
    return {"mode": mode, **facts, "last": last}
