"""Which node a command is about: `--data DIR` or `--config FILE`, before the command, behind it, or in between.

    penstock --config node.toml flow stop --all
    penstock flow --data DIR stop --all
    penstock flow stop --all --data DIR

What is given nearest to the command counts; without any it is the environment's, or the default. A directory that is
not there is an error wherever one has to be.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ops.errors import CommandError
from penstock.settings.sources import load_settings


def inherited(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """What an option was given, or else the same option of a group that the command belongs to."""
    above = context.parent
    while value in (None, False) and above is not None:
        value = above.params.get(parameter.name or "", value)
        above = above.parent
    return value


def _named(context: typer.Context, parameter: typer.CallbackParam, value: Path | None) -> Path | None:
    """The directory that a command or one of its groups was given, or that a file of settings given there names."""
    here: Any = context
    while here is not None:
        data = value if here is context else here.params.get("data")
        if data is not None:
            return Path(data)
        config = here.params.get("config")
        if config is not None:
            return load_settings(config).data
        here = here.parent
    return None


Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="data directory of the node", show_default=False, callback=_named),
]


def data_directory(data: Path | None, *, new: bool = False) -> Path:
    """The data directory that is meant. CommandError if it is not there, unless it may be a `new` one."""
    directory = load_settings(None, {"data": data}).data
    if not new and not directory.is_dir():
        raise CommandError(f"there is no data directory {directory}")
    return directory
