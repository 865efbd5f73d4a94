"""`penstock support`: one file with what a report of a defect needs, and no secret.

Each part is a file in the archive. A part that cannot be had, as those of a node that does not run, says why instead.
"""

from __future__ import annotations

import io
import os
import platform
import re
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import orjson
import psutil
import typer

from console.flow.incidents import events, incidents
from console.metrics.exposition import Chosen, text
from console.metrics.reading import Reading
from ops.configuration import settings_of
from ops.doctor.command import as_json, findings
from ops.errors import CommandError
from ops.health import as_json as health_as_json
from ops.health import checks
from ops.naming import Config, Data, named_directory
from ops.status import NotRunning, Status, collect, opened
from penstock import __version__
from penstock.settings.sources import Configuration, read_configuration
from penstock.text.utf8 import readable

LATEST = 200
"""Incidents and events that are taken along."""
CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
SECRET = re.compile(r"password|passwd|secret|token|credential", re.IGNORECASE)
HIDDEN = "…"


def support(
    config: Config = None,
    data: Data = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="archive to write", show_default="penstock-support-TIME.tar.gz"),
    ] = None,
) -> None:
    """Versions, settings, the findings of `penstock doctor`, sizes of files, incidents, and of a node that runs its
    status, health, metrics and processes. Names of vhosts, queues and users are in it; passwords and messages are not.

    Example: penstock support --data /var/lib/penstock
    """
    directory = named_directory(config, data)
    taken = time.time()
    named = f"penstock-support-{datetime.fromtimestamp(taken, UTC):%Y%m%d-%H%M%S}"
    path = file or Path(f"{named}.tar.gz")
    configuration = read_configuration(config, {"data": directory})
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None
    with os.fdopen(descriptor, "wb") as written, tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, contents in parts(directory, configuration):
            entry = tarfile.TarInfo(f"{named}/{name}")
            entry.size, entry.mtime, entry.mode = len(contents), int(taken), 0o600
            archive.addfile(entry, io.BytesIO(contents))
            print(f"{name:<20} {len(contents):>10,} bytes")
    print(f"wrote {path}: look at it before you send it")


def parts(data: Path, configuration: Configuration) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of all parts."""
    status = cache(lambda: collect(data))
    made: dict[str, Callable[[], bytes]] = {
        "versions.json": lambda: _json(versions()),
        "settings.json": lambda: _json(without_secrets(settings_of(configuration))),
        "doctor.json": lambda: as_json(list(findings(configuration.settings))).encode(),
        "files.txt": lambda: "\n".join(files(data)).encode(),
        "status.json": lambda: _json(without_secrets(asdict(status()))),
        "health.json": lambda: health_as_json(checks(data)).encode(),
        "metrics.txt": lambda: metrics(data),
        "incidents.json": lambda: _json(incidents(data)[:LATEST]),
        "events.json": lambda: _json(events(data)[:LATEST]),
        "processes.json": lambda: _json(processes(status())),
    }
    for name, make in made.items():
        try:
            yield name, make()
        except (NotRunning, OSError, ValueError, psutil.Error) as error:
            yield f"{name}.missing", f"{error}\n".encode()


def versions() -> dict[str, Any]:
    """Return versions of penstock, its packages, Python and the system."""
    packages = {each.metadata["Name"]: each.version for each in metadata.distributions()}
    return {
        "penstock": __version__,
        "python": sys.version,
        "system": platform.platform(),
        "libc": " ".join(platform.libc_ver()),
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        "packages": dict(sorted(packages.items())),
    }


def files(data: Path) -> Iterator[str]:
    """Yield a line for each file of a data directory: size, time of its last change, name."""
    for path in sorted(data.rglob("*")):
        facts = path.lstat()
        changed = datetime.fromtimestamp(facts.st_mtime, UTC)
        yield f"{facts.st_size:>14} {changed:%Y-%m-%dT%H:%M:%SZ} {path.relative_to(data)}"


def metrics(data: Path) -> bytes:
    """Return the metrics of a node, as Prometheus reads them. NotRunning if there is none."""
    with opened(data) as (node, gauges):
        return text(Reading(gauges, node.settings), Chosen.ALL, openmetrics=False)


def processes(status: Status) -> list[dict[str, Any]]:
    """Return what the kernel knows of each process of a node."""
    names = ("pid", "name", "status", "num_threads", "num_fds", "cpu_times", "memory_info", "nice")
    found = []
    for each in status.processes:
        try:
            facts = psutil.Process(each["pid"]).as_dict(names)
        except psutil.NoSuchProcess:
            continue  # it has just ended
        found.append({name: fact._asdict() if hasattr(fact, "_asdict") else fact for name, fact in facts.items()})
    return found


def without_secrets(value: Any, name: str = "") -> Any:
    """Return a value without secrets: those called so, and the credentials in URLs."""
    if isinstance(value, dict):
        named = str(value.get("setting", ""))
        return {key: without_secrets(each, f"{named}.{key}" if key == "value" else key) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(each, name) for each in value]
    if isinstance(value, str):
        return HIDDEN if value and SECRET.search(name) else CREDENTIALS.sub(f"{HIDDEN}@", value)
    return value


def _json(value: Any) -> bytes:
    return orjson.dumps(readable(value), option=orjson.OPT_INDENT_2, default=str)
