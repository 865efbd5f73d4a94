"""The node that a command addresses: `--data DIR` or `--config FILE`, before the command, after it, or in between.

    penstock --config node.toml flow stop --all
    penstock flow --data DIR stop --all
    penstock flow stop --all --data DIR

The option nearest to the command counts; without one, the environment's setting or the default. A missing directory is
an error wherever one must exist.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ops.errors import CommandError
from penstock.settings.default_data import default_data

PREFIX = "PENSTOCK_"
DATA = "PENSTOCK_DATA"


def inherited(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """Return the value of an option, or else that of the same option of a group to which the command belongs."""
    above = context.parent
    while value in (None, False) and above is not None:
        value = above.params.get(parameter.name or "", value)
        above = above.parent
    return value


def _given_directory(context: typer.Context, parameter: typer.CallbackParam, value: Path | None) -> Path | None:
    """Return the data directory given to a command or one of its groups, by option or by a configuration file."""
    here: Any = context
    while here is not None:
        data = value if here is context else here.params.get("data")
        if data is not None:
            return Path(data)
        config = here.params.get("config")
        if config is not None:
            return named_directory(config, None)
        here = here.parent
    return None


Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="data directory of the node", show_default=False, callback=_given_directory
    ),
]


Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="TOML configuration file", show_default=False, callback=inherited),
]


def named_directory(config: Path | None, data: Path | None) -> Path:
    """Return the data directory as settings name it (`penstock.settings.sources`). SettingsError if one of them is
    wrong. They are read only if there are any: importing their model takes longer than most commands.
    """
    given = {name for name in os.environ if name.upper().startswith(PREFIX)}
    if config is not None or given - {DATA}:
        from penstock.settings.sources import load_settings

        return load_settings(config, {"data": data}).data
    named = os.environ.get(DATA) if data is None else data
    return (default_data() if named is None else Path(named)).expanduser().absolute()


def data_directory(data: Path | None, *, new: bool = False) -> Path:
    """Return the data directory of a command. CommandError if it does not exist, unless it may be `new`."""
    directory = named_directory(None, data)
    if not new and not directory.is_dir():
        raise CommandError(f"there is no data directory {directory}")
    return directory
