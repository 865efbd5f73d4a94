"""`penstock init`: a first configuration, with what the defaults come to on this machine."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ops.errors import CommandError
from ops.serve_command import DataOption
from penstock.settings import Settings
from penstock.settings.machine import free_disk, usable_memory
from penstock.settings.sources import known_keys, model_of
from penstock.settings.values import MIB, SIZE

FIRST = (
    "host", "port", "data", "definitions", "acceptors", "shards", "memory_limit", "log_level",
    "flow.max_count", "flow.max_bytes", "flow.stop_percent", "flow.resume_percent", "flow.deadlock",
    "limits.connections", "limits.user_queues", "store.durability", "store.limit",
    "rebalance.automatic.mode", "telemetry.limit", "traces.ratio", "http.host", "http.port", "http.certificate",
)  # fmt: skip
"""The settings that most operators look at, in the order of the file."""
WIDTH = 100
STDOUT = "-"


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="file to write; - is standard output")] = Path(
        "penstock.toml"
    ),
    data: DataOption = None,
    every: Annotated[bool, typer.Option("--all", help="all settings, instead of those that come first")] = False,
    force: Annotated[bool, typer.Option("--force", help="replace the file if there is one")] = False,
) -> None:
    """Each setting comes with its meaning and the value that it has on this machine, as a comment. Exit status 2 if
    there is a file already.

    Example: penstock init /etc/penstock.toml --data /var/lib/penstock
    """
    settings = Settings() if data is None else Settings(data=data)
    keys = tuple(known_keys(Settings)) if every else FIRST
    text = "\n".join(lines(settings, keys, given=() if data is None else ("data",))) + "\n"
    if str(file) == STDOUT:
        print(text, end="")
        return
    try:
        with file.open("w" if force else "x") as opened:
            opened.write(text)
    except FileExistsError:
        raise CommandError(f"there is a file {file} already; --force replaces it") from None
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}") from None
    print(f"wrote {file}\nnext: penstock doctor --config {file}\n      penstock serve --config {file}")


def lines(settings: Settings, keys: Sequence[str], given: Collection[str] = ()) -> Iterator[str]:
    """Yield the lines of a file with these settings, which are ordered by section; those `given` are no comments."""
    machine = f"{usable_memory() // MIB:,} MiB of memory, {free_disk(settings.data) // MIB:,} MiB free on its disk"
    yield from _comment(
        f"A node of penstock, on a machine with {machine}. Lines without a space behind the # are settings, with the"
        " values that they have here unless they are changed. All of them: penstock config show."
    )
    for section, members in groupby(keys, key=_section):
        if section:
            yield from ("", f"[{section}]")
        for key in members:
            yield from _setting(settings, key, key in given)


def _section(key: str) -> str:
    return key.rpartition(".")[0]


def _setting(settings: Settings, key: str, given: bool) -> Iterator[str]:
    field, value = _found(settings, key.split("."))
    yield ""
    yield from _comment(str(field.description))
    name = key.rpartition(".")[2]
    if value is None:
        yield f'#{name} = ""'
    else:
        yield f"{'' if given else '#'}{name} = {_written(value, field)}"


def _found(model: BaseModel, path: list[str]) -> tuple[FieldInfo, Any]:
    field = type(model).model_fields[path[0]]
    value = getattr(model, path[0])
    return _found(value, path[1:]) if model_of(field) is not None else (field, value)


def _comment(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")


def _written(value: Any, field: FieldInfo) -> str:
    """Return a value as TOML; sizes in whole MiB where they have some."""
    if SIZE in field.metadata and value >= MIB:
        return json.dumps(f"{value // MIB} MiB")
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, tuple):
        return json.dumps(",".join(map(str, value)))
    return json.dumps(str(value), ensure_ascii=False)
