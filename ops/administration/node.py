"""Requests to the node that runs on a data directory, and the display of its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from ops.claim import Pointer, is_claimed
from ops.errors import CommandError
from ops.naming import data_directory, inherited
from ops.running import Running
from penstock.control import control
from penstock.memory.gauges import Gauges
from penstock.text.utf8 import readable

AsJson = Annotated[bool, typer.Option("--json", help="print JSON instead of a table", callback=inherited)]


def gauges_of(data: Path | None) -> Gauges:
    """Open the gauges of the node for reading. CommandError if it does not run."""
    directory = data_directory(data)
    pointer = Pointer.load(directory)
    if pointer is None or not is_claimed(directory):
        raise CommandError(f"no node runs on {directory}")
    try:
        return Gauges.open(pointer.gauges, writable=False)
    except FileNotFoundError:
        raise CommandError(f"the node on {directory} is starting or stopping; try again") from None


def running(data: Path | None) -> tuple[Running, Path]:
    """Return the node that runs on a data directory, and the directory. CommandError if none does."""
    directory = data_directory(data)
    if not is_claimed(directory):
        raise CommandError(f"no node runs on {directory}")
    pointer = Pointer.load(directory)
    try:
        if pointer is None:
            raise FileNotFoundError
        return Running.load(pointer.runtime), directory
    except FileNotFoundError:
        raise CommandError(f"the node on {directory} is starting or stopping; try again") from None
    except (OSError, ValueError) as error:
        raise CommandError(f"the node on {directory} does not answer: {error}") from None


def ask(data: Path | None, command: str, **arguments: Any) -> Any:
    """Return the result of a command. CommandError if the node does not run, does not answer, or refuses."""
    node, directory = running(data)
    try:
        return control.call(node.control, command, arguments)
    except (FileNotFoundError, ConnectionRefusedError):
        raise CommandError(f"the node on {directory} is starting or stopping; try again") from None
    except control.Refusal as refusal:
        raise CommandError(str(refusal)) from None
    except (OSError, ValueError) as error:
        raise CommandError(f"the node on {directory} does not answer: {error}") from None


def show(records: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool, kept: Sequence[str] = ()) -> None:
    """Print records as JSON, or as a table of these columns (`ops.output.print_table`)."""
    if as_json:
        print(orjson.dumps(records, option=orjson.OPT_INDENT_2).decode())
        return
    from ops.output import print_table  # not at the top: most commands print a line

    print_table(columns, [[_shown(record[column]) for column in columns] for record in records], kept)


def show_rows(
    found: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    row: Callable[[Any], Mapping[str, Any]],
    otherwise: str,
    as_json: bool,
    kept: Sequence[str] = (),
) -> None:
    """Print records as JSON, or as a table with a row for each; `otherwise` takes the place of an empty table."""
    if as_json:
        show(found, columns, as_json=True)
    elif found:
        show([row(each) for each in found], columns, as_json=False, kept=kept)
    else:
        print(otherwise)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(readable(str(value)))
