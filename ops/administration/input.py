"""Input of commands: JSON in arguments, URLs with passwords, and questions before something is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import typer

from ops.errors import CommandError


def json_object(text: str, what: str) -> dict[str, Any]:
    """Return the JSON object in an argument. CommandError if there is none."""
    try:
        found = orjson.loads(text.encode("utf-8", "surrogateescape"))
    except orjson.JSONDecodeError as error:
        raise CommandError(f"{what} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise CommandError(f"{what} is not a JSON object")
    return found


def url_in(argument: str | None) -> str | None:
    """Return an argument, or what the file contains that it names as "@FILE": there the password of a URL is hidden
    from the list of processes and the shell's history. CommandError if it cannot be read.
    """
    if argument is None or not argument.startswith("@"):
        return argument
    try:
        return Path(argument[1:]).read_text().strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise CommandError(f"cannot read the URL in {argument[1:]}: {reason}") from None


def confirm(question: str, otherwise: str) -> None:
    """Ask a question. CommandError, beginning with `otherwise`, unless the answer is yes."""
    try:
        typer.confirm(question, abort=True)
    except typer.Abort:
        raise CommandError(f"{otherwise}; --yes does it without a question") from None


def counted(number: int, noun: str = "message") -> str:
    """Return "1 message", "2 messages"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
