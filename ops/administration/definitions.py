"""`penstock definitions`: topology and accounts of a node as a file, in RabbitMQ's format."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from ops.administration.node import ask
from ops.errors import CommandError
from ops.naming import Data
from penstock.files.directories import private

app = typer.Typer(no_args_is_help=True)

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="definitions exported by penstock or RabbitMQ, JSON", show_default=False)
]
SkipRefused = Annotated[
    bool, typer.Option("--skip-refused", help="import everything else if something is refused; default: nothing")
]
IntoVhost = Annotated[
    str | None,
    typer.Option("--vhost", metavar="VHOST", help="into this vhost, wherever they are from", show_default=False),
]


@app.command("export")
def export_(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="the file to write; default: standard output")
    ] = None,
    vhost: Annotated[
        str | None, typer.Option("--vhost", metavar="VHOST", help="only this vhost, without users", show_default=False)
    ] = None,
    data: Data = None,
) -> None:
    """Export the definitions of the node, with hashes of passwords, in RabbitMQ's format. Messages are not exported.

    Example: penstock definitions export definitions.json
    """
    text = orjson.dumps(ask(data, "definitions_export", vhost=vhost), option=orjson.OPT_INDENT_2) + b"\n"
    if file is None:
        sys.stdout.write(text.decode())
        return
    unfinished = file.with_name(f"{file.name}.new")
    try:
        with open(unfinished, "wb", opener=private) as written:
            written.write(text)
            written.flush()
            os.fsync(written.fileno())
        unfinished.replace(file)
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}") from None


@app.command("import")
def import_(file: File, vhost: IntoVhost = None, skip_refused: SkipRefused = False, data: Data = None) -> None:
    """Import definitions that penstock or RabbitMQ has exported. What has no meaning here is listed.

    If something is refused, such as an exchange that exists with other properties, nothing is imported and the exit
    status is 2. Users, permissions, limits and policies replace existing ones.

    Example: penstock definitions import definitions.json
    """
    import_file(data, file, vhost, skip_refused=skip_refused)


def import_file(
    data: Path | None, file: Path, vhost: str | None, sections: Sequence[str] | None = None, skip_refused: bool = False
) -> None:
    """Import a file's definitions, of some sections or (None) all, and print the outcome. CommandError if the file
    contains none, or if anything is refused.
    """
    found = ask(
        data, "definitions_import",
        definitions=read(file), vhost=vhost, sections=sections, skip_refused=skip_refused,
    )  # fmt: skip
    for text in found["ignored"] if sections is None else ():
        print(f"ignored: {text}")
    for text in found["refused"]:
        print(f"refused: {text}")
    counts = ", ".join(_counted(number, section) for section, number in found["imported"].items())
    if counts or not found["refused"]:
        print(f"imported {counts or 'nothing'}")
    if found["refused"]:
        raise CommandError(f"{len(found['refused'])} refused" + ("" if counts else ", so nothing is imported"))


def _counted(number: int, section: str) -> str:
    words = section.replace("_", " ")
    one = words.removesuffix("ies") + "y" if words.endswith("ies") else words.removesuffix("s")
    return f"{number} {one if number == 1 else words}"


def read(file: Path) -> dict[str, Any]:
    """Read the JSON object in a file. CommandError if it cannot be read, or is none."""
    try:
        definitions = orjson.loads(file.read_bytes())
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise CommandError(f"{file} is not JSON: {error}") from None
    if not isinstance(definitions, dict):
        raise CommandError(f"{file} contains no definitions: it is not a JSON object")
    return definitions
