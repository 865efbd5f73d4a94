"""`penstock config`: the settings that a node would start with, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from ops.administration.node import AsJson, show
from ops.naming import Config
from penstock.settings.sources import Configuration, read_configuration

app = typer.Typer(no_args_is_help=True)

COLUMNS = ("setting", "value", "origin")
DEFAULT = "default"


@app.command("show")
def show_(
    config: Config = None,
    given: Annotated[bool, typer.Option("--given", help="only settings that are not left at their default")] = False,
    as_json: AsJson = False,
) -> None:
    """Show every setting, its value, and where that comes from.

    Example: penstock config show --config /etc/penstock.toml --given
    """
    rows = settings_of(read_configuration(config))
    show([row for row in rows if row["origin"] != DEFAULT or not given], COLUMNS, as_json)


@app.command()
def check(config: Config = None) -> None:
    """Check the configuration. Exit status 2, with the first mistake, if a node would not start with it.

    Example: penstock config check --config /etc/penstock.toml
    """
    found = read_configuration(config)
    count = len(found.origins)
    print("the configuration is valid: " + ("all defaults" if not count else f"{count} settings are given"))


def settings_of(configuration: Configuration) -> list[dict[str, Any]]:
    """Return all settings by dotted key, with their values and origins."""
    values = _dotted(configuration.settings.model_dump(mode="json"))
    return [
        {"setting": key, "value": value, "origin": configuration.origins.get(key, DEFAULT)} for key, value in values
    ]


def _dotted(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
