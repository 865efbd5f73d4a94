"""`penstock doctor`: check the surroundings of a node, and say what to change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import orjson
import typer

from ops.claim import is_claimed
from ops.compiled import refusal
from ops.doctor import clocks, disk, machine, ports
from ops.doctor.finding import Finding, Level, ok, problem
from ops.naming import Config
from ops.serve_command import DataOption
from penstock.settings import Settings
from penstock.settings.sources import read_configuration


def doctor(
    config: Config = None,
    data: DataOption = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON instead of lines")] = False,
) -> None:
    """Limits, memory, kernel, clocks, disk and ports, as the user sees them that runs this, with the settings that a
    node would start with. It changes nothing, and takes about a second. Exit status 1 if there is a problem.

    Example: penstock doctor --config /etc/penstock.toml
    """
    found = list(findings(read_configuration(config, {"data": data}).settings))
    print(as_json(found) if json else "\n".join(lines(found)))
    if any(each.level is Level.PROBLEM for each in found):
        raise typer.Exit(1)


def findings(settings: Settings) -> Iterator[Finding]:
    """Check everything."""
    yield _compiled()
    yield machine.user()
    yield machine.cores(settings)
    yield machine.memory(settings)
    yield machine.swap()
    yield machine.files()
    yield machine.shared_memory(settings)
    yield machine.backlog()
    yield machine.overcommit()
    yield clocks.synchronized()
    yield clocks.readings()
    yield disk.directory(settings.data)
    yield disk.file_system(settings.data)
    yield disk.room(settings)
    yield disk.flushes(settings.data)
    yield from ports.ports(settings, is_claimed(settings.data))


def lines(found: Sequence[Finding]) -> Iterator[str]:
    """Yield a line for each finding, and one for its remedy."""
    for each in found:
        yield f"{each.level:<8} {each.check:<14} {each.text}"
        if each.remedy:
            yield f"{'':<23} → {each.remedy}"
    counts = {level: sum(each.level is level for each in found) for level in (Level.PROBLEM, Level.ADVICE)}
    yield f"problems: {counts[Level.PROBLEM]}, advice: {counts[Level.ADVICE]}"


def as_json(found: Sequence[Finding]) -> str:
    """Return the findings as a JSON list."""
    return orjson.dumps([each._asdict() for each in found], option=orjson.OPT_INDENT_2).decode()


def _compiled() -> Finding:
    reason = refusal()
    return ok("modules", "all are compiled") if reason is None else problem("modules", reason, "make setup")
